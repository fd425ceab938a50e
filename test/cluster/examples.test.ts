// The examples, run as they are against a real Belfry in this process.
import { mkdtempSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@belfry/sdk'
import { startBelfry } from '@belfry/server'
import { expect, onTestFinished, test } from 'vitest'
import { createTarget } from '../../examples/idempotent-target/target.ts'

test('idempotent-target: a doubled call does not double the work', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-examples-'))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const flags = { dataDir, port: 0, opsPort: 0, logLevel: 'silent', egressAllow: ['127.0.0.0/8'] }
  const belfry = await startBelfry({ flags })
  onTestFinished(() => belfry.stop())
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
