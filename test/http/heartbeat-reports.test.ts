// The thread that keeps a session's lease, against a server by hand: whatever is reported on the way, the
// lease is renewed, and only the report that is at fault is lost.
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { holdLease, type Lease } from '../../packages/sdk/src/worker/lease.ts'
import { eventually } from '../support/api.ts'

type Beat = { readonly status: number; readonly bytes: number; readonly runIds: readonly string[] }

let server: Server | undefined
let lease: Lease | undefined

afterEach(() => {
  lease?.end()
  server?.closeAllConnections()
  server?.close()
})

/** Refuses a body that says `bad`, with the status that is given. */
async function serve(refusal: number) {
  const beats: Beat[] = []
  server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const text = Buffer.concat(parts).toString()
      const { progress } = JSON.parse(text) as { progress: { runId: string }[] }
      const status = text.includes('bad') ? refusal : 200
      beats.push({ status, bytes: text.length, runIds: progress.map(({ runId }) => runId) })
      response.statusCode = status
      response.end(JSON.stringify({ leaseMs: 5_000, heldRunIds: [], cancelRunIds: [] }))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const troubles: string[] = []
  let renewals = 0
  let lost = false
  lease = holdLease({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    headers: { 'content-type': 'application/json' },
    leaseMs: 30_000,
    heartbeatMs: 1_000,
    openedAt: process.hrtime.bigint(),
    onRenewed: () => renewals++,
    onLost: () => (lost = true),
    onTrouble: (_, error) => troubles.push(String(error)),
  })
  return { beats, troubles, renewals: () => renewals, lost: () => lost, lease }
}

test.each([400, 413])('a report that is answered with %i costs nobody else anything', async (refusal) => {
  const { beats, troubles, renewals, lost, lease: held } = await serve(refusal)
  const report = (runId: string, progress: unknown) => held.report({ runId, leaseEpoch: 1, progress })
  report('no json', { n: 1n })
  report('first', 'bad')
  for (const runId of ['second', 'third', 'fourth']) report(runId, 'x'.repeat(300_000))
  await eventually(() =>
    Promise.resolve(
      ['second', 'third', 'fourth'].every((runId) =>
        beats.some((beat) => beat.status === 200 && beat.runIds.includes(runId)),
      ),
    ),
  )
  expect(troubles).toHaveLength(2)
  expect(troubles[0]).toContain('the progress of the run no json was dropped')
  expect(troubles[1]).toContain(`the progress of the run first was dropped: the server answered ${refusal}`)
  expect(beats.every(({ bytes }) => bytes < 600_000)).toBe(true)
  // each refusal is followed by a renewal without reports
  const refused = beats.flatMap(({ status }, index) => (status === refusal ? [index] : []))
  expect(refused.length).toBeGreaterThan(0)
  for (const index of refused) expect(beats[index + 1]).toMatchObject({ status: 200, runIds: [] })
  await eventually(() => Promise.resolve(renewals() === beats.length - refused.length))
  expect(lost()).toBe(false)
})
