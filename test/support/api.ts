// The API on a fresh test database, with everything real but the network: requests are injected. Hints and
// events are kept for a look. `call` sends JSON with a key and answers status, headers and body.
import type { ClaimedFunctionRun, Scope, WorkflowChange, WorkflowTask } from '@belfry/contract'
import { createSystemIds } from '../../packages/server/src/adapters/system/ids.ts'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { createDatabaseClock } from '../../packages/server/src/engine/database-clock.ts'
import { quotaDefaults } from '../../packages/server/src/config/quota-fields.ts'
import { type AuditNoteKeeper, createAuditNotes } from '../../packages/server/src/engine/audit-notes.ts'
import { withQuotas } from '../../packages/server/src/engine/quotas/quota-catalog.ts'
import { createQuotaKeeper } from '../../packages/server/src/engine/quotas/quota-keeper.ts'
import { createQuotaBuckets } from '../../packages/server/src/postgres/catalog/quota-store.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createRunWatcher } from '../../packages/server/src/engine/run-watcher.ts'
import {
  createWatchedRuns,
  tellingEnds,
  tellingLines,
} from '../../packages/server/src/engine/watched-runs.ts'
import { createCallbackGate } from '../../packages/server/src/engine/callbacks/callback-gate.ts'
import {
  createWorkerGate,
  type WorkerGate,
  type WorkerGateOptions,
} from '../../packages/server/src/engine/workers/worker-gate.ts'
import type { Api, ApiOptions } from '../../packages/server/src/http/api.ts'
import { createApi } from '../../packages/server/src/http/api.ts'
import type { EventSink } from '../../packages/server/src/ports/event-sink.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import type { SecretSource } from '../../packages/server/src/ports/secrets.ts'
import { bootstrapTenant } from '../../packages/server/src/postgres/catalog/bootstrap.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import { createKnownKeys } from '../../packages/server/src/postgres/catalog/key-store.ts'
import { createPostgresAuditInbox } from '../../packages/server/src/postgres/audit-sealing.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { createCallbackSignatures } from '../../packages/server/src/security/callback-signature.ts'
import { callbackTokens } from '../../packages/server/src/security/callback-token.ts'
import { keyMint } from '../../packages/server/src/security/credentials.ts'
import { inviteMint } from '../../packages/server/src/security/session-tokens.ts'
import { createPostgresCallbackStore } from '../../packages/server/src/postgres/callback-store.ts'
import { createPostgresSecretReader } from '../../packages/server/src/postgres/secret-reader.ts'
import { createSecretSource } from '../../packages/server/src/security/secrets/secret-source.ts'
import { createPostgresQueueProgress } from '../../packages/server/src/postgres/queue-progress.ts'
import { createPostgresRunQueue } from '../../packages/server/src/postgres/run-queue.ts'
import { createPostgresRunWatchStore } from '../../packages/server/src/postgres/run-watch-store.ts'
import { createPostgresRunStore } from '../../packages/server/src/postgres/run-store.ts'
import { createPostgresWorkerStore } from '../../packages/server/src/postgres/worker-store.ts'
import { createTestDatabase, type TestDatabase } from './postgres.ts'
import { realClock, realRandom } from './real-clock.ts'
import { testAuthenticator, testPeople } from './test-people.ts'
import { createTestVault } from './test-vault.ts'

/**
 * Every field that a test reads from an answer, as if all were there: one that is missing fails the
 * expectation on it. Not there at all (undefined at run time) after 204.
 */
export type AnswerBody = {
  readonly id: string
  readonly name: string
  readonly instance: string
  readonly code: string
  readonly status: number
  readonly retryable: boolean
  readonly detail: string
  readonly errors: readonly { readonly pointer: string; readonly message: string }[]
  readonly items: readonly AnswerBody[]
  readonly nextCursor: string | null
  readonly version: number
  readonly handler: { readonly kind: string; readonly url: string }
  readonly jobId: string
  readonly state: string
  readonly every: string | null
  readonly endAt: string | null
  readonly catchUp: unknown
  readonly notes: readonly string[]
  readonly nextAt: string
  readonly sleepUntil: string | null
  readonly sleepReason: string | null
  readonly runCount: number
  readonly resumedAt: string | null
  readonly reason: string | null
  readonly outcome: string
  readonly missedCount: number
  readonly dialect: string | null
  readonly zone: unknown
  readonly words: string
  readonly upcoming: readonly string[]
  readonly warnings: readonly { readonly code: string; readonly at: string | null }[]
  readonly zoneDataVersion: string
  readonly tasks: readonly WorkflowTask[]
  readonly changes: readonly WorkflowChange[]
  readonly next: readonly string[]
  readonly before: readonly string[] | null
  readonly after: readonly string[] | null
  readonly scheduledFor: string
  readonly nextAttemptAt: string | null
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly lateMs: number | null
  readonly cancelRequested: boolean
  readonly input: unknown
  readonly attemptList: readonly { readonly number: number }[]
  readonly attemptsTotal: number
  readonly runs: readonly ClaimedFunctionRun[]
  readonly results: readonly { readonly applied: boolean }[]
  readonly jobs: readonly { readonly version: number; readonly change: string }[]
  readonly lines: readonly { readonly number: number; readonly message: string }[]
  readonly number: number
  readonly secret: string
  readonly inviteToken: string
  readonly token: string
  readonly session: { readonly id: string }
  readonly member: {
    readonly id: string
    readonly role: string
    readonly state: string
    readonly name: string
  }
  readonly role: string | null
  readonly expiresAt: string | null
  readonly revokedAt: string | null
  readonly lastUsedAt: string | null
}

export type Answer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: AnswerBody
}

export type CallOptions = {
  readonly key?: string | null
  readonly body?: unknown
  /** Sent as it is. */
  readonly raw?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

export type TestApi = {
  readonly api: Api
  readonly gate: WorkerGate
  /** Notes of refusals: put on record by `flush`. */
  readonly audit: AuditNoteKeeper
  readonly database: TestDatabase
  readonly db: Database
  readonly hints: Hint[]
  readonly events: { name: string; payload: unknown }[]
  /** With every scope but `platform`. */
  readonly adminKey: string
  readonly tenantId: string
  readonly call: (method: string, path: string, options?: CallOptions) => Promise<Answer>
  /** A key of a tenant, which is made where needed. */
  readonly keyFor: (tenant: string, scopes: readonly Scope[]) => Promise<string>
  /** Rows of each table, to show that nothing was stored. */
  readonly counts: () => Promise<Record<string, number>>
  readonly close: () => Promise<void>
}

const tables = [
  'backfill',
  'calendar',
  'schedule_calendar',
  'extra_run',
  'tenant',
  'api_key',
  'job',
  'job_version',
  'schedule',
  'timer',
  'run',
  'ready',
  'delayed',
  'attempt',
  'pool',
]

/** Refuses what the tests call forbidden: loopback by address. */
const testEgress: ApiOptions['egress'] = {
  checkTargetUrl: (url) =>
    new URL(url).hostname.startsWith('169.254.')
      ? {
          code: 'invalid_target',
          pointer: '/handler/url',
          message: 'is a metadata address; call a public one',
        }
      : undefined,
  checkTargetHeaders: () => [],
}

/** `quotas`: as in the configuration; left out: none are held. */
export async function startTestApi(
  more: Partial<ApiOptions> = {},
  quotas?: readonly string[],
  people: Pick<Parameters<typeof testPeople>[0], 'provider' | 'publicUrl' | 'limits'> = {},
): Promise<TestApi> {
  const database = await createTestDatabase()
  const db = database.open()
  const ids = createSystemIds()
  const hints: Hint[] = []
  const events: TestApi['events'] = []
  const tags = createFairTags({ clock: realClock, progress: createPostgresQueueProgress(database.open()) })
  const localHints = createLocalHints()
  localHints.subscribe((hint) => void hints.push(hint))
  const sink: EventSink = { emit: (name, payload) => void events.push({ name, payload }) }
  const vault = more.vault ?? createTestVault()
  const secrets = createSecretSource({
    reader: createPostgresSecretReader(db),
    vault,
    clock: realClock,
    keepMs: 0,
  })
  const gates = openGates(db, { ids, tags, hints: localHints, events: sink, secrets })
  const held =
    quotas === undefined
      ? { catalog: createPostgresCatalog({ db }) }
      : withTestQuotas(db, database.open(), quotas)
  const audit = createAuditNotes({
    inbox: createPostgresAuditInbox(db),
    clock: realClock,
    random: realRandom,
    events: sink,
  })
  const api = await createApi({
    version: '0.0.0-test',
    ...held,
    authenticator: testAuthenticator(db),
    people: testPeople({ db, catalog: held.catalog, ids, notes: audit, ...people }),
    audit,
    knownKeys: createKnownKeys({ db }),
    mint: keyMint,
    vault,
    invites: inviteMint,
    zones: openZoneSource(),
    ids,
    tags,
    hints: localHints,
    events: sink,
    ...gates,
    watcher: createRunWatcher({
      store: createPostgresRunWatchStore(db),
      hints: localHints,
      clock: realClock,
      random: realRandom,
      events: sink,
    }),
    egress: testEgress,
    checkResponses: true,
    limits: { perKeyPerMinute: 1_000_000, failuresPerMinute: 1_000_000 },
    ...more,
  })
  let keys = 0
  const makeKey = (tenant: string, scopes: readonly Scope[]) =>
    bootstrapTenant({ db, ids, mint: keyMint }, { tenant, keyName: `key-${keys++}`, scopes })
  const first = await makeKey('acme', ['admin'])
  const parts = { api, gate: gates.gate, database, db, hints, audit, events }
  return { ...parts, ...callsOf(api, database, first, makeKey) }
}

/** What a test does with it. */
function callsOf(
  api: Api,
  database: TestDatabase,
  first: { readonly key: string; readonly tenantId: string },
  makeKey: (tenant: string, scopes: readonly Scope[]) => Promise<{ readonly key: string }>,
): Omit<TestApi, 'api' | 'gate' | 'database' | 'db' | 'hints' | 'audit' | 'events'> {
  return {
    adminKey: first.key,
    tenantId: first.tenantId,
    keyFor: async (tenant, scopes) => (await makeKey(tenant, scopes)).key,
    call: (method, path, options) => callApi(api, first.key, method, path, options),
    async counts() {
      const parts = tables.map(
        (name) => `SELECT '${name}' AS name, count(*)::int AS count FROM belfry.${name}`,
      )
      const rows = await database.sql<{ name: string; count: number }>(parts.join(' UNION ALL '))
      return Object.fromEntries(rows.map((row) => [row.name, row.count]))
    },
    async close() {
      await api.close()
      await database.drop()
    },
  }
}

/** The buckets on connections of their own: a request waits for them while it holds one. */
function withTestQuotas(
  db: Database,
  own: Database,
  given: readonly string[],
): Pick<ApiOptions, 'catalog' | 'quotas'> {
  const buckets = createQuotaBuckets(own)
  const quotas = createQuotaKeeper({ defaults: quotaDefaults(given), buckets, clock: realClock })
  return { catalog: withQuotas(createPostgresCatalog({ db }), quotas, openZoneSource()), quotas }
}

function openGates(
  db: Database,
  shared: Pick<WorkerGateOptions, 'ids' | 'tags' | 'hints' | 'events'> & { readonly secrets: SecretSource },
): Pick<ApiOptions, 'gate' | 'callbacks'> {
  const watched = createWatchedRuns({ hints: shared.hints, clock: realClock })
  const options = {
    ...shared,
    clock: realClock,
    random: realRandom,
    databaseClock: createDatabaseClock(realClock),
    queue: createPostgresRunQueue(db),
    store: tellingEnds(createPostgresRunStore({ db, heartbeats: db }), watched),
    workers: tellingLines(createPostgresWorkerStore(db), watched),
    leaseMs: 30_000,
    heartbeatMs: 10_000,
  }
  const callbacks = createPostgresCallbackStore(db)
  return {
    gate: createWorkerGate(options),
    callbacks: createCallbackGate({
      ...options,
      callbacks,
      tokens: callbackTokens,
      signatures: createCallbackSignatures(options),
    }),
  }
}

async function callApi(
  api: Api,
  ownKey: string,
  method: string,
  path: string,
  { key = ownKey, body, raw, headers = {} }: CallOptions = {},
): Promise<Answer> {
  const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  const response = await api.app.inject({
    method: method as 'GET',
    url: path,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(payload === undefined ? {} : { payload }),
  })
  const text = response.body
  return {
    status: response.statusCode,
    headers: response.headers as Answer['headers'],
    body: (text === '' || isStream(response.headers) ? undefined : JSON.parse(text)) as AnswerBody,
  }
}

const isStream = (headers: Readonly<Record<string, unknown>>): boolean =>
  String(headers['content-type']).startsWith('text/event-stream')

/** Waits until `holds` answers something that is not undefined or false, at most 10 s. */
export async function eventually<T>(holds: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + 10_000
  for (;;) {
    const found = await holds()
    if (found !== undefined && found !== false) return found
    if (performance.now() > deadline) throw new Error('It did not come to be within 10 s.')
    await new Promise((resolve) => setImmediate(resolve))
  }
}

export const httpJob = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  handler: { kind: 'http', url: 'https://example.com/hook' },
  ...more,
})
