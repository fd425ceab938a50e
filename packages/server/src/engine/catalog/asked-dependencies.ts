/**
 * The runs that requests depend on: each has to be on record. What is not known, and what is so old that its
 * record was dropped, is told apart: the one is a mistake, of the other nobody can say how it ended.
 */
import { BelfryError } from '@belfry/contract'
import { isPastRetention } from '../../domain/dependencies.ts'
import type { RunIntake } from '../../ports/run-intake.ts'
import type { AskedWithin } from './asked-run.ts'
import type { AskedRun } from './enqueuer.ts'

type Asked = Pick<AskedRun, 'dependencies'>

/** Of each request, in order, why it is refused: undefined where it is not. */
export async function dependencyFaults(
  intake: Pick<RunIntake, 'knownRuns'>,
  asked: readonly Asked[],
  within: AskedWithin,
): Promise<readonly (BelfryError | undefined)[]> {
  const ids = new Set(asked.flatMap(({ dependencies }) => dependencies?.runIds ?? []))
  if (ids.size === 0) return asked.map(() => undefined)
  const known = await intake.knownRuns([...ids])
  return asked.map(({ dependencies }) => faultOf(dependencies?.runIds ?? [], known, within))
}

/** Throws the first of them. */
export async function checkDependencies(
  intake: Pick<RunIntake, 'knownRuns'>,
  asked: readonly Asked[],
  within: AskedWithin,
): Promise<void> {
  const fault = (await dependencyFaults(intake, asked, within)).find((each) => each !== undefined)
  if (fault !== undefined) throw fault
}

const mostShown = 20

function faultOf(
  runIds: readonly string[],
  known: ReadonlySet<string>,
  { nowMs, retentionDays }: AskedWithin,
): BelfryError | undefined {
  const missing = [...runIds.entries()].filter(([, id]) => !known.has(id.toLowerCase()))
  if (missing.length === 0) return undefined
  let pruned = 0
  const errors = missing.slice(0, mostShown).map(([index, id]) => {
    const isOld = isPastRetention(id, nowMs, retentionDays)
    if (isOld) pruned++
    const message = isOld
      ? `run ${id} is older than the ${retentionDays} days that runs are on record, so nobody can say how ` +
        'it ended; leave it out'
      : `there is no run ${id}; give the id that the answer to its request had`
    return { pointer: `/dependsOn/${index}`, message }
  })
  const words = errors[0]?.message ?? ''
  const code = pruned === errors.length ? 'invalid_request' : 'not_found'
  return new BelfryError(code, `The run cannot depend on what it names: ${words}.`, { errors })
}
