/**
 * Runs that differ in little (ports/run-intake.ts), as columns for statements: in parts that a statement
 * takes.
 */
import type { JsonValue } from '@belfry/contract'
import { routeOf } from '../../domain/route.ts'
import type { AlikeRuns } from '../../ports/run-intake.ts'
import type { AlikeRunColumns } from '../statements/run-batch.ts'
import { isoOrNull } from './values.ts'

/** Runs that one statement inserts, at most. */
export const runsAStatement = 2_000
/** Characters of the inputs of a part, which are one JSON value: Postgres takes no more than 256 MiB. */
const inputsAStatement = 16 * 1024 * 1024

/** Made one by one, so that the database can be busy with those before. */
export function* alikeColumns(
  runs: AlikeRuns,
  tenantId: string,
  ifPresent: boolean,
): Generator<AlikeRunColumns> {
  const { ids, tags, inputs, template } = runs
  for (let from = 0; from < ids.length; from += runsAStatement) {
    for (const [start, end, text] of parts(inputs, from, Math.min(ids.length, from + runsAStatement))) {
      yield [
        tenantId,
        template.jobId,
        template.jobVersion,
        runs.source,
        runs.queue,
        runs.priority,
        routeOf(template.definition.handler, tenantId),
        template.definition.attemptTimeoutMs,
        isoOrNull(runs.dueAtMs),
        runs.startWithinMs,
        runs.runDeadlineMs,
        `{${ids.slice(start, end).join()}}`,
        `{${tags.slice(start, end).join()}}`,
        text,
        ifPresent,
      ]
    }
  }
}

type Part = readonly [start: number, end: number, inputs: string | null]

/** Halves, and halves of these, where the inputs are large. */
function* parts(inputs: readonly JsonValue[] | null, start: number, end: number): Generator<Part> {
  const text = inputs === null ? null : JSON.stringify(inputs.slice(start, end))
  if (text === null || text.length <= inputsAStatement || end - start === 1) {
    yield [start, end, text]
    return
  }
  const middle = Math.ceil((start + end) / 2)
  yield* parts(inputs, start, middle)
  yield* parts(inputs, middle, end)
}
