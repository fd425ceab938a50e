/**
 * From the body of a request to what is taken in (enqueuer.ts). Everything that can be wrong with one request
 * is found here, before anything is locked or stored.
 */
import type { ErrorDetail, RunCreate } from '@belfry/contract'
import { BelfryError, defaultTriggerRule, maxInputBytes } from '@belfry/contract'
import { fitsAlone, gatherRule } from '../../domain/gathering.ts'
import type { RunTemplate } from '../../ports/catalog.ts'
import type { AskedRun } from './enqueuer.ts'
import { inputBytes } from './enqueuer.ts'
import { wantedStart } from './run-maker.ts'

const dayMs = 86_400_000

export interface AskedWithin {
  readonly nowMs: number
  /** Days of history that are kept. */
  readonly retentionDays: number
}

type DedupeBody = Pick<RunCreate, 'dedupeKey' | 'dedupe'>

/**
 * The dedupe key of a request, and for how long its run would hold it. Throws `invalid_request` for longer
 * than the run itself is on record: a duplicate answers that run.
 */
export function wantedDedupe({ dedupeKey, dedupe }: DedupeBody, retentionDays: number): AskedRun['dedupe'] {
  if (dedupeKey === undefined) return null
  const windowMs = dedupe?.windowMs ?? null
  if (windowMs !== null && windowMs > retentionDays * dayMs) {
    const message = `is longer than runs are on record here (${retentionDays} days); give a shorter one`
    throw refusal('The window of the dedupe key', [{ pointer: '/dedupe/windowMs', message }])
  }
  return { key: dedupeKey, windowMs }
}

/** Throws `invalid_request`. */
export function askedRun(template: RunTemplate, body: RunCreate, within: AskedWithin): AskedRun {
  const runAtMs = wantedStart(body.runAt, within.nowMs)
  const rule = gatherRule(template.definition)
  if (rule !== null && body.runAt !== undefined) {
    const message = `has no meaning for a job with "${rule.kind}": it sets when runs are due; leave it out`
    throw refusal('The time of the run', [{ pointer: '/runAt', message }])
  }
  if (rule?.kind === 'collect' && !fitsAlone(inputBytes(body.input))) {
    const message = `must, in a list, be at most ${maxInputBytes} bytes of JSON; store large data elsewhere`
    throw refusal('The input', [{ pointer: '/input', message }])
  }
  if (rule !== null && body.dependsOn !== undefined) {
    const message = `has no meaning for a job with "${rule.kind}": one run takes many requests; leave it out`
    throw refusal('The dependency of the run', [{ pointer: '/dependsOn', message }])
  }
  return {
    template,
    source: 'manual',
    scheduleId: null,
    input: body.input,
    runAtMs,
    queue: body.queue,
    priority: body.priority,
    limits: body,
    dependencies:
      body.dependsOn === undefined
        ? undefined
        : { runIds: body.dependsOn, rule: body.rule ?? defaultTriggerRule },
    dedupe: wantedDedupe(body, within.retentionDays),
    gathers: true,
  }
}

function refusal(what: string, errors: readonly [ErrorDetail, ...ErrorDetail[]]): BelfryError {
  return new BelfryError('invalid_request', `${what} ${errors[0].message}.`, { errors })
}
