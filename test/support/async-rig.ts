// A target that takes runs over, a worker that calls it, and the API that it reports to: all real, on one
// test database. What the target is sent stands in its ledger, the token and the address for its reports with
// it.
import { createSystemIds } from '../../packages/server/src/adapters/system/ids.ts'
import { createHttpHandler } from '../../packages/server/src/adapters/handlers/http/http-handler.ts'
import { createTagClock } from '../../packages/server/src/domain/fair-queue.ts'
import { createCallbackDoor } from '../../packages/server/src/engine/callbacks/callback-door.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { createRescuer } from '../../packages/server/src/engine/rescuer.ts'
import { createWorker, type Worker } from '../../packages/server/src/engine/worker.ts'
import type { Vault } from '../../packages/server/src/ports/secrets.ts'
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { createPostgresOverdueRuns } from '../../packages/server/src/postgres/overdue-runs.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { createPostgresSecretReader } from '../../packages/server/src/postgres/secret-reader.ts'
import { callbackTokens } from '../../packages/server/src/security/callback-token.ts'
import { createSecretSource } from '../../packages/server/src/security/secrets/secret-source.ts'
import { createEgress } from '../../packages/server/src/security/egress/egress.ts'
import { type Answer, eventually, startTestApi, type TestApi } from './api.ts'
import { realClock, realRandom } from './real-clock.ts'
import { recordEvents, recordHints, type RecordedEvents } from './running.ts'
import { createTestVault } from './test-vault.ts'
import { createTargetServer, type TargetCall, type TargetServer } from './target-server.ts'

export interface AsyncRig {
  readonly api: TestApi
  readonly url: string
  readonly target: TargetServer
  readonly worker: Worker
  readonly events: RecordedEvents
  /** Makes a job and a run of it, and answers the run's id. Its target is `/<name>`. */
  readonly start: (name: string, definition?: object) => Promise<string>
  /** The call of the newest attempt of a run. */
  readonly callOf: (runId: string, attempt?: number) => Promise<TargetCall>
  /** Resolves once the run is parked. */
  readonly parked: (runId: string) => Promise<unknown>
  /** As the target reports: by what the call brought. */
  readonly report: (
    call: TargetCall,
    body: object,
    headers?: Readonly<Record<string, string>>,
  ) => Promise<Answer>
  /** With any token, to any run. */
  readonly reportAs: (runId: string, token: string | null, body: object) => Promise<Answer>
  readonly run: (runId: string) => Promise<Record<string, unknown>>
  readonly rescue: () => Promise<number>
  readonly close: () => Promise<void>
}

const accepts = { deadlineMs: 600_000 }

export async function openAsyncRig(): Promise<AsyncRig> {
  const vault = createTestVault()
  const anyTarget = { checkTargetUrl: () => undefined, checkTargetHeaders: () => [] }
  const api = await startTestApi({ egress: anyTarget, vault })
  const url = await api.api.listen({ host: '127.0.0.1', port: 0 })
  const target = await createTargetServer()
  const engine = await openEngine(api, vault, url)
  const report: AsyncRig['reportAs'] = (runId, token, body) =>
    api.call('POST', `/v1/callbacks/${runId}`, { key: token, body })
  return {
    api,
    url,
    target,
    worker: engine.worker,
    events: engine.events,
    ...runsOf(api, target),
    reportAs: report,
    report(call, body, headers = {}) {
      const path = new URL(call.headers['belfry-callback-url'] ?? '').pathname
      const key = call.headers['belfry-callback-token'] ?? null
      return api.call('POST', path, { key, body, headers })
    },
    rescue: engine.rescue,
    async close() {
      await engine.close()
      await target.close()
      await api.close()
    },
  }
}

/** A worker of two slots that calls targets, and a rescuer that acts when it is asked to. */
async function openEngine({ db }: TestApi, vault: Vault, url: string) {
  const reader = createPostgresSecretReader(db)
  const egress = createEgress({ allowCidrs: ['127.0.0.0/8'], clock: realClock })
  const callbacks = createPostgresCallbackStore(db)
  const handler = createHttpHandler({
    egress,
    clock: realClock,
    userAgent: 'Belfry/0.0.0',
    secrets: createSecretSource({ reader, vault, clock: realClock, keepMs: 50 }),
    callbacks: createCallbackDoor({ callbacks, tokens: callbackTokens, baseUrl: () => url }),
  })
  const events = recordEvents()
  const store = createPostgresRunStore({ db, heartbeats: db })
  const parts = { clock: realClock, random: realRandom, events, hints: recordHints(), store, callbacks }
  const worker = createWorker({
    ...parts,
    queue: createPostgresRunQueue(db),
    databaseClock: createDatabaseClock(realClock),
    ids: createSystemIds(),
    tags: createTagClock(),
    host: 'test',
    version: '0',
    queues: ['default'],
    handlers: [handler],
    settings: { slots: 2, leaseMs: 30_000, heartbeatMs: 5_000, maxPollMs: 20, drainMs: 2_000 },
  })
  await worker.start()
  const rescuer = createRescuer({ ...parts, overdueRuns: createPostgresOverdueRuns(db) })
  return {
    worker,
    events,
    rescue: () => rescuer.runOnce(),
    async close() {
      await worker.stop()
      await handler.close()
      await egress.close()
    },
  }
}

function runsOf(api: TestApi, target: TargetServer): Pick<AsyncRig, 'start' | 'callOf' | 'parked' | 'run'> {
  const called = (runId: string): readonly TargetCall[] =>
    target.ledger.filter((call) => call.headers['belfry-run-id'] === runId)
  return {
    async start(name, definition = {}) {
      const handlerOf = { kind: 'http', url: target.url(`/${name}`), async: accepts }
      const { handler: more, ...rest } = definition as { handler?: object }
      const job = { name, retry: { maxAttempts: 1 }, ...rest, handler: { ...handlerOf, ...more } }
      const made = await api.call('POST', '/v1/jobs', { body: job })
      if (made.status !== 201) throw new Error(JSON.stringify(made.body))
      const { body } = await api.call('POST', '/v1/runs', { body: { job: name, input: { of: name } } })
      return body.id
    },
    callOf: (runId, attempt = 1) =>
      eventually(async () =>
        called(runId).find((call) => call.headers['belfry-attempt'] === String(attempt)),
      ),
    parked: (runId) =>
      eventually(async () => {
        const found = await api.database.sql(
          `SELECT FROM belfry.callback WHERE run_id = '${runId}' AND accepted_at IS NOT NULL`,
        )
        return found.length > 0
      }),
    run: async (runId) => ({ ...(await api.call('GET', `/v1/runs/${runId}`)).body }),
  }
}
