// A job that runs as a service account, in a worker of the server: as long as the account may run it, its
// handler is called; once it is disabled, bound to other queues or unknown, nothing is called and the run
// ends with the reason, without another try.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createIdentities } from '../../packages/server/src/engine/identities.ts'
import type { IdentityRecord } from '../../packages/server/src/ports/run-store.ts'
import {
  createRunningFixture,
  eventually,
  newId,
  type RunningFixture,
  success,
  testHandler,
} from '../support/running.ts'
import { workerRigs } from '../support/worker-rig.ts'

let fixture: RunningFixture
const rigs = workerRigs(() => fixture)
beforeAll(async () => {
  fixture = await createRunningFixture()
})
afterAll(() => fixture.drop())
afterEach(rigs.stopAll)

async function addAccount(name: string, more: { disabled?: boolean; queues?: string[] } = {}): Promise<void> {
  await fixture.database.sql(
    `INSERT INTO belfry.service_account (tenant_id, id, name, role, queues, disabled_at)
     VALUES ($1, $2, $3, 'viewer', $4, CASE WHEN $5 THEN now() END)`,
    [fixture.tenantId, newId(), name, more.queues ?? null, more.disabled ?? false],
  )
}

async function endOf(runAs: string) {
  const [runId = ''] = await fixture.addRuns(await fixture.addJob({ runAs }), 1)
  return eventually(async () => (await fixture.attempts(runId))[0], `an attempt of ${runId}`)
}

describe('runs of a job with an identity', () => {
  test('are executed where the account may run them, and refused by name where not', async () => {
    await addAccount('good')
    await addAccount('bound', { queues: ['default', 'mail'] })
    await addAccount('elsewhere', { queues: ['mail'] })
    await addAccount('gone', { disabled: true })
    const handler = testHandler(() => success)
    await rigs.start(handler)
    const ends: Record<string, unknown> = {}
    for (const name of ['good', 'bound', 'elsewhere', 'gone', 'nobody']) {
      const { outcome, run_state, error_code } = await endOf(name)
      ends[name] = [outcome, run_state, error_code]
    }
    expect(ends).toEqual({
      good: ['succeeded', 'succeeded', null],
      bound: ['succeeded', 'succeeded', null],
      elsewhere: ['failed', 'failed', 'identity_denied'],
      gone: ['failed', 'failed', 'identity_disabled'],
      nobody: ['failed', 'failed', 'identity_disabled'],
    })
    expect(handler.requests).toHaveLength(2)
  })

  test("another tenant's account of the name is not theirs", async () => {
    await fixture.database.sql(
      `INSERT INTO belfry.service_account (tenant_id, id, name, role) VALUES ($1, $2, 'theirs', 'viewer')`,
      [await fixture.addTenant(), newId()],
    )
    await rigs.start(testHandler(() => success))
    expect(await endOf('theirs')).toMatchObject({ error_code: 'identity_disabled' })
  })
})

describe('what is known of accounts', () => {
  test('is asked for once in three seconds, for all runs of a claim; without one, not at all', async () => {
    let nowMs = 0
    let disabled = false
    const asked: number[] = []
    const store = {
      identities: async (
        wanted: readonly { tenantId: string; name: string }[],
      ): Promise<IdentityRecord[]> => {
        asked.push(wanted.length)
        return wanted.map((each) => ({ ...each, queues: null, disabled }))
      },
    }
    const identities = createIdentities(store, { monotonicMs: () => nowMs })
    const run = (runAs: string | null) => ({ tenantId: 't', queue: 'q', runAs })
    const codeOf = async (name: string) => (await identities.load([run(name)]))(run(name))?.code
    await identities.load([run(null), run(null)])
    expect(asked).toEqual([])
    await identities.load([run('a'), run('a'), run('b'), run(null)])
    expect(asked).toEqual([2])
    disabled = true
    nowMs = 2_999
    expect(await codeOf('a')).toBeUndefined()
    nowMs = 3_000
    expect(await codeOf('a')).toBe('identity_disabled')
    expect(asked).toEqual([2, 1])
  })
})
