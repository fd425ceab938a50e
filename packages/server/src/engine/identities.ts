/**
 * Whether runs may go on as the service account that their job names: looked up when they are claimed, all
 * at once, and remembered for a few seconds only, so that disabling an account stops what runs as it. Jobs
 * that name none, most of them, cost nothing.
 */
import type { RunError } from '@belfry/contract'
import type { Clock } from '../ports/clock.ts'
import type { IdentityRecord, RunStore } from '../ports/run-store.ts'

const rememberMs = 3_000
const maxRemembered = 2_000

export interface ActingRun {
  readonly tenantId: string
  readonly queue: string
  /** Null: as no account. */
  readonly runAs: string | null
}

export interface Identities {
  /** Answers what keeps a run from being executed; undefined: nothing. */
  load(runs: readonly ActingRun[]): Promise<(run: ActingRun) => RunError | undefined>
}

const keyOf = (tenantId: string, name: string): string => `${tenantId}:${name}`

export function createIdentities(
  store: Pick<RunStore, 'identities'>,
  clock: Pick<Clock, 'monotonicMs'>,
): Identities {
  const known = new Map<string, { readonly identity: IdentityRecord | undefined; readonly untilMs: number }>()

  return {
    async load(runs) {
      const nowMs = clock.monotonicMs()
      const missing = new Map<string, { tenantId: string; name: string }>()
      for (const { tenantId, runAs: name } of runs) {
        if (name === null) continue
        const key = keyOf(tenantId, name)
        if ((known.get(key)?.untilMs ?? -Infinity) <= nowMs) missing.set(key, { tenantId, name })
      }
      if (missing.size > 0) {
        const found = await store.identities([...missing.values()])
        const byKey = new Map(found.map((each) => [keyOf(each.tenantId, each.name), each]))
        if (known.size + missing.size > maxRemembered) known.clear()
        for (const key of missing.keys())
          known.set(key, { identity: byKey.get(key), untilMs: nowMs + rememberMs })
      }
      return ({ tenantId, queue, runAs }) =>
        runAs === null ? undefined : faultOf(runAs, queue, known.get(keyOf(tenantId, runAs))?.identity)
    },
  }
}

function faultOf(name: string, queue: string, identity: IdentityRecord | undefined): RunError | undefined {
  if (identity === undefined || identity.disabled) {
    const message = `The service account "${name}", as which it runs, is disabled; enable it.`
    return { code: 'identity_disabled', message }
  }
  if (identity.queues === null || identity.queues.includes(queue)) return undefined
  const bound = identity.queues.join(', ')
  return {
    code: 'identity_denied',
    message: `Its queue is "${queue}", and what runs as "${name}" may be in ${bound}; change either.`,
  }
}
