// Keys over two processes: what one is told about a key, or about the service account that owns it, holds
// in the other within five seconds, for requests and for streams that are open.
import { expect, test } from 'vitest'
import { eventually } from '../support/running.ts'
import { type Arena, arenaHarness } from './support/arena.ts'
import type { NodeProcess } from './support/node-process.ts'

const harness = arenaHarness()
const withinMs = 5_000

async function statusAt(node: NodeProcess, key: string): Promise<number> {
  const answer = await fetch(`${node.apiUrl}/v1/jobs`, { headers: { authorization: `Bearer ${key}` } })
  await answer.arrayBuffer()
  return answer.status
}

/** Milliseconds until the other process refuses the key too, while it is asked all the time. */
async function refusedAfter(node: NodeProcess, key: string, act: () => Promise<unknown>): Promise<number> {
  expect(await statusAt(node, key)).toBe(200)
  await act()
  const sinceMs = performance.now()
  await eventually(async () => (await statusAt(node, key)) === 401, 'the key is refused', 2 * withinMs)
  return performance.now() - sinceMs
}

/** A stream of the log of a run that waits; `ended` resolves when the server ends it. */
async function openStream(node: NodeProcess, arena: Arena, key: string): Promise<{ ended: Promise<string> }> {
  const client = arena.client('a')
  await client.jobs.create({ name: 'held', handler: { kind: 'function', name: 'nobody-runs-it' } })
  const { id } = await client.runs.create({ job: 'held' })
  const answer = await fetch(`${node.apiUrl}/v1/runs/${id}/logs/stream`, {
    headers: { authorization: `Bearer ${key}` },
  })
  expect(answer.status).toBe(200)
  return { ended: answer.text() }
}

test('keys that are revoked, or of a disabled account, are refused everywhere in five seconds', async () => {
  const arena = await harness.open()
  const [, b] = [await arena.start('a'), await arena.start('b')]
  const client = arena.client('a')
  const key = await client.keys.create({ name: 'to-go', scopes: ['read'] })
  expect(await refusedAfter(b, key.secret ?? '', () => client.keys.revoke(key.id))).toBeLessThan(withinMs)

  const account = await client.serviceAccounts.create({ name: 'robot', role: 'viewer' })
  const owned = await client.keys.create({ name: 'of-robot', scopes: ['read'], serviceAccount: 'robot' })
  const stream = await openStream(b, arena, owned.secret ?? '')
  const disable = () => client.serviceAccounts.update(account.id, { disabled: true })
  const sinceMs = performance.now()
  expect(await refusedAfter(b, owned.secret ?? '', disable)).toBeLessThan(withinMs)
  expect(await stream.ended).toContain('key_refused')
  expect(performance.now() - sinceMs).toBeLessThan(withinMs + 500)
})
