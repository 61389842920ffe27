// A provider that limits with express-rate-limit: 10 requests in 2 seconds, once
// for each of its dialects. It prints its port and lives as long as its input.
import express from 'express'
import { rateLimit } from 'express-rate-limit'

const dialects = {
	'draft-6': { standardHeaders: 'draft-6', legacyHeaders: false },
	'draft-7': { standardHeaders: 'draft-7', legacyHeaders: false },
	'draft-8': { standardHeaders: 'draft-8', legacyHeaders: false },
	legacy: { standardHeaders: false, legacyHeaders: true },
}

const app = express()
for (const [name, headers] of Object.entries(dialects)) {
	const limiter = rateLimit({ windowMs: 2000, limit: 10, keyGenerator: () => name, ...headers })
	app.get('/' + name, limiter, (_, res) => res.send('ok'))
}
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port))
process.stdin.on('end', () => process.exit()).resume()
