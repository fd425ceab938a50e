/**
 * What is done with a report before it counts: that of a job that signs must be signed, and no secret of the
 * job stays in it, whatever the target repeats of its call.
 */
import type { CallbackReport, JobDefinition, JsonValue } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import { maskJson } from '@belfry/contract/stream-mask'
import { secretValues } from '../../domain/secret-mask.ts'
import type { CallbackSignatures, FoundCallback, SentReport } from '../../ports/callbacks.ts'
import type { SecretSource } from '../../ports/secrets.ts'
import type { DefinitionCache } from '../definition-cache.ts'

export interface ReportCheckOptions {
  readonly signatures: CallbackSignatures
  readonly secrets: SecretSource
  readonly definitions: DefinitionCache
}

/**
 * Answers the report as it may be kept. Throws `unauthenticated`, and `secrets_unavailable` where nobody can
 * say now what is secret.
 */
export type ReportCheck = <Report extends CallbackReport>(
  found: FoundCallback,
  sent: SentReport,
  report: Report,
) => Promise<Report>

export function createReportCheck({ signatures, secrets, definitions }: ReportCheckOptions): ReportCheck {
  async function valuesOf(tenantId: string, handler: JobDefinition['handler']): Promise<readonly string[]> {
    const own = handler.kind === 'http' ? secretValues(handler.headers) : []
    return [...own, ...(await secrets.masked({ tenantId, handler }))]
  }

  return async ({ tenantId, runId, jobId, jobVersion }, sent, report) => {
    if (jobId === null || jobVersion === null) return report
    const version = { tenantId, jobId, version: jobVersion }
    const definition = (await definitions.load([version]))(version)
    if (definition === undefined) return report
    const { handler, runAs } = definition
    const fault = await signatures.fault({ tenantId, jobId, runId, handler, runAs }, sent)
    if (fault !== undefined) throw new BelfryError('unauthenticated', fault)
    const values = await valuesOf(tenantId, handler)
    // of the same action as before
    return values.length === 0 ? report : (masked(report, values) as typeof report)
  }
}

function masked(report: CallbackReport, values: readonly string[]): CallbackReport {
  const mask = <T>(value: T): T => (value === undefined ? value : (maskJson(value as JsonValue, values) as T))
  switch (report.action) {
    case 'complete':
      return { ...report, result: mask(report.result) }
    case 'fail':
      return { ...report, error: mask(report.error) }
    case 'heartbeat':
      return { ...report, progress: mask(report.progress) }
    case 'log': {
      const lines = report.lines.map(({ message, fields, ...rest }) => ({
        ...rest,
        message: mask(message),
        ...(fields === undefined ? {} : { fields: mask(fields) }),
      }))
      return { ...report, lines }
    }
    default:
      return report satisfies never
  }
}
