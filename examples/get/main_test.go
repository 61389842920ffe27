package main

func Example() {
	main()
	// Output:
	// 200 OK
	// Hello! This is request 2; the first came too soon.
}
