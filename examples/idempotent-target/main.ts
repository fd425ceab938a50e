/**
 * Starts the target and asks Belfry to call it every ten seconds. Needs a running `npx belfry dev`; the key
 * comes from its context: `BELFRY_URL=http://127.0.0.1:4680 BELFRY_API_KEY=… node --conditions=source
 * examples/idempotent-target/main.ts`
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createClient } from '@belfry/sdk'
import { createTarget } from './target.ts'

const { server } = createTarget()
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo
const client = createClient({
  url: process.env['BELFRY_URL'] ?? 'http://127.0.0.1:4680',
  apiKey: process.env['BELFRY_API_KEY'],
})
const schedule = await client.schedules.create({
  name: `report-${process.pid}`,
  every: '10s',
  handler: { kind: 'http', url: `http://127.0.0.1:${port}/report` },
  retry: { maxAttempts: 5 },
})
process.stdout.write(`${schedule.name} runs next at ${schedule.nextAt}; Ctrl-C ends the target\n`)
