// The examples, run as they are against a real Belfry in this process. Those that need a language of their
// own are left out where it is missing.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@belfry/sdk'
import { startBelfry } from '@belfry/server'
import { expect, onTestFinished, test } from 'vitest'
import { describeNeeding } from '../support/needs.ts'
import { createTarget } from '../../examples/idempotent-target/target.ts'

/** A whole Belfry for one test. */
async function startHere() {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-examples-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const flags = { dataDir, port: 0, opsPort: 0, logLevel: 'silent', egressAllow: ['127.0.0.0/8'] }
  const belfry = await startBelfry({ flags })
  onTestFinished(() => belfry.stop())
  return belfry
}

test('idempotent-target: a doubled call does not double the work', async () => {
  const belfry = await startHere()
  const { server, workDone } = createTarget()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/report`
  const client = createClient(belfry)

  const job = await client.jobs.create({ name: 'report', handler: { kind: 'http', url } })
  const { id } = await client.runs.create({ job: job.name })
  const run = await client.waitForRun(id, { timeoutMs: 20_000 })
  const again = await fetch(url, { method: 'POST', headers: { 'idempotency-key': run.idempotencyKey } })

  expect(run.state).toBe('succeeded')
  expect(await again.text()).toBe('report 1')
  expect(workDone()).toBe(1)
})

describeNeeding('python3', 'python-worker', (python) => {
  test('speaks the protocol from the documentation alone, in at most 60 lines', async () => {
    const belfry = await startHere()
    const client = createClient(belfry)
    const { secret } = await client.keys.create({ name: 'python', scopes: ['worker'], queues: ['python'] })
    const file = fileURLToPath(new URL('../../examples/python-worker/worker.py', import.meta.url))
    const env = { ...process.env, BELFRY_URL: belfry.url, BELFRY_TOKEN: secret ?? '' }
    const child = spawn(python, [file], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(child, 'close')
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')

    const good = await client.runs.create({ job: 'python.shout', input: 'hello' })
    const bad = await client.runs.create({ job: 'python.shout', input: 5 })
    expect(await client.waitForRun(good.id, { timeoutMs: 20_000 })).toMatchObject({
      state: 'succeeded',
      attemptList: [{ result: { shouted: 'HELLO' } }],
    })
    const failed = async () => (await client.runs.get(bad.id)).attemptList[0]?.error?.code
    await expect.poll(failed, { timeout: 20_000 }).toBe('AttributeError')
    expect(readFileSync(file, 'utf8').trimEnd().split('\n').length).toBeLessThanOrEqual(60)
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })
})
