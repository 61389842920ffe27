// Gets URL/1 to URL/30 all at once with axios, whose plug-in axios-retry waits
// as Retry-After says.
import axios from 'axios'
import axiosRetry from 'axios-retry'

const url = process.argv[2]
const client = axios.create()
axiosRetry(client, { retries: 5 })
await Promise.all(Array.from({ length: 30 }, (_, i) => client.get(`${url}/${i + 1}`)))
