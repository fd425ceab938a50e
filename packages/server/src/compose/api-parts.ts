/**
 * The API of a process and what it lets others reach of the engine: workers outside by their gate, targets by
 * theirs.
 */
import type { Logger } from 'pino'
import { systemClock } from '../adapters/system/clock.ts'
import { systemRandom } from '../adapters/system/ids.ts'
import type { Config } from '../config/schema.ts'
import { createCallbackGate } from '../engine/callbacks/callback-gate.ts'
import type { RunWatcher } from '../engine/run-watcher.ts'
import { createRunWatcher } from '../engine/run-watcher.ts'
import type { WatchedRuns } from '../engine/watched-runs.ts'
import { tellingEnds } from '../engine/watched-runs.ts'
import type { WorkerGateOptions } from '../engine/workers/worker-gate.ts'
import { createWorkerGate } from '../engine/workers/worker-gate.ts'
import type { Api, ApiOptions } from '../http/api.ts'
import { createApi } from '../http/api.ts'
import type { CallbackStore } from '../ports/callbacks.ts'
import type { Catalog } from '../ports/catalog.ts'
import type { Authenticator } from '../ports/credentials.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Hints } from '../ports/hints.ts'
import type { SecretSource } from '../ports/secrets.ts'
import { createKeyDirectory, createKnownKeys } from '../postgres/catalog/key-store.ts'
import { createSessionDirectory } from '../postgres/catalog/people-store.ts'
import type { Database } from '../postgres/database.ts'
import { createPostgresRunQueue } from '../postgres/run-queue.ts'
import { createPostgresRunStore } from '../postgres/run-store.ts'
import { createPostgresRunWatchStore } from '../postgres/run-watch-store.ts'
import { createCallbackSignatures } from '../security/callback-signature.ts'
import { callbackTokens } from '../security/callback-token.ts'
import {
  createAuthenticator,
  createSessionAuthenticator,
  eitherAuthenticator,
  keyMint,
} from '../security/credentials.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import { version } from './version.ts'

function openWatcher(
  db: Database,
  shared: { readonly hints: Hints; readonly events: EventSink },
): RunWatcher {
  const store = createPostgresRunWatchStore(db)
  return createRunWatcher({ ...shared, clock: systemClock, random: systemRandom, store })
}

/** What workers outside and targets reach of the engine, by the API. */
export function openGates(
  { leaseMs, heartbeatMs }: Config,
  parts: Pick<WorkerGateOptions, 'ids' | 'hints' | 'events' | 'tags' | 'workers' | 'databaseClock'> & {
    readonly secrets: SecretSource
    readonly db: Database
    readonly leases: Database
    readonly watched: WatchedRuns
    readonly callbacks: CallbackStore
    /** Counts how fast workers outside are; what targets report is no work of theirs. */
    readonly countedEvents: EventSink
  },
): Pick<ApiOptions, 'gate' | 'callbacks'> {
  const { db, leases, watched } = parts
  const options = {
    ...parts,
    clock: systemClock,
    random: systemRandom,
    leaseMs,
    heartbeatMs,
    queue: createPostgresRunQueue(db),
    store: tellingEnds(createPostgresRunStore({ db, heartbeats: leases }), watched),
  }
  return {
    gate: createWorkerGate({ ...options, events: parts.countedEvents }),
    callbacks: createCallbackGate({
      ...options,
      tokens: callbackTokens,
      signatures: createCallbackSignatures(options),
    }),
  }
}

export function openApi(
  { db, catalog }: { readonly db: Database; readonly catalog: Catalog },
  metrics: Metrics,
  logger: Logger,
  shared: Pick<
    ApiOptions,
    | 'ids'
    | 'audit'
    | 'egress'
    | 'tags'
    | 'zones'
    | 'gate'
    | 'callbacks'
    | 'lambda'
    | 'containers'
    | 'events'
    | 'limits'
    | 'retentionDays'
    | 'quotas'
    | 'vault'
    | 'people'
    | 'invites'
    | 'trustedProxies'
  > & {
    readonly hints: Hints
    readonly authenticator?: Authenticator | undefined
  },
): Promise<Api> {
  return createApi({
    ...shared,
    version,
    logger,
    catalog,
    watcher: openWatcher(db, shared),
    authenticator:
      shared.authenticator ??
      eitherAuthenticator(
        createAuthenticator({ directory: createKeyDirectory({ db }), clock: systemClock }),
        createSessionAuthenticator({ directory: createSessionDirectory({ db }), clock: systemClock }),
      ),
    knownKeys: createKnownKeys({ db }),
    mint: keyMint,
    observer: metrics.requests,
  })
}
