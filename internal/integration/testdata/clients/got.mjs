// Gets URL/1 to URL/30 all at once with got, which waits as Retry-After says.
import got from 'got'

const url = process.argv[2]
const client = got.extend({ retry: { limit: 5 } })
await Promise.all(Array.from({ length: 30 }, (_, i) => client(`${url}/${i + 1}`)))
