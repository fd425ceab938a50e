/**
 * What workers outside send back of a run, without the secrets that its function was given. The SDK masks
 * before it sends; whoever speaks the protocol by hand need not, so it is done here for results, errors and
 * progress. Runs of jobs that name no secret cost nothing.
 */
import { type AttemptReport, type JobDefinition, type JsonValue, secretsOf } from '@belfry/contract'
import { maskJson, maskText } from '@belfry/contract/stream-mask'
import type { SecretSource } from '../../ports/secrets.ts'
import type { HeldAttempt, HeldName, WorkerStore } from '../../ports/worker-store.ts'
import type { DefinitionCache } from '../definition-cache.ts'

type Progress = HeldName & { readonly progress: JsonValue }

export interface ReportMasks {
  /** Throws `secrets_unavailable`: the worker reports again. */
  ends(reports: readonly AttemptReport[], held: readonly HeldAttempt[]): Promise<readonly AttemptReport[]>
  /** Leaves out what cannot be masked now: more of it comes, and the heartbeat must not fail for it. */
  progress(sessionId: string, progress: readonly Progress[]): Promise<readonly Progress[]>
}

export interface ReportMasksOptions {
  readonly workers: Pick<WorkerStore, 'heldAttempts'>
  readonly secrets?: SecretSource
}

/** By run. Runs that are not in it have no secrets. */
type Values = ReadonlyMap<string, Promise<readonly string[]>>

const versionOf = ({ tenantId, jobId, jobVersion: version }: HeldAttempt) => ({ tenantId, jobId, version })

export function createReportMasks(
  { workers, secrets }: ReportMasksOptions,
  definitions: DefinitionCache,
): ReportMasks {
  async function valuesOf(held: readonly HeldAttempt[]): Promise<Values> {
    const definitionOf = await definitions.load(held.map(versionOf))
    const asked = new Map<JobDefinition['handler'], Promise<readonly string[]>>()
    const byRun = new Map<string, Promise<readonly string[]>>()
    for (const attempt of held) {
      const handler = definitionOf(versionOf(attempt))?.handler
      // what a target reports is masked as it comes in (engine/callbacks/report-check.ts)
      if (handler?.kind !== 'function' || secretsOf(handler).length === 0 || secrets === undefined) continue
      const values = asked.get(handler) ?? secrets.masked({ tenantId: attempt.tenantId, handler })
      asked.set(handler, values)
      byRun.set(attempt.runId, values)
    }
    await Promise.allSettled(asked.values())
    return byRun
  }

  return {
    async ends(reports, held) {
      const byRun = await valuesOf(held)
      return Promise.all(
        reports.map(async (report) => {
          const values = await byRun.get(report.runId)
          return values === undefined ? report : maskedEnd(report, values)
        }),
      )
    },
    async progress(sessionId, progress) {
      const byRun = await valuesOf(await workers.heldAttempts(sessionId, progress))
      const masked = progress.map(async (each) => {
        const values = await byRun.get(each.runId)
        return values === undefined ? each : { ...each, progress: maskJson(each.progress, values) }
      })
      const settled = await Promise.allSettled(masked)
      return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    },
  }
}

function maskedEnd(report: AttemptReport, values: readonly string[]): AttemptReport {
  const { result, error } = report
  return {
    ...report,
    ...(result === undefined ? {} : { result: maskJson(result, values) }),
    ...(error === undefined
      ? {}
      : { error: { code: maskText(error.code, values), message: maskText(error.message, values) } }),
  }
}
