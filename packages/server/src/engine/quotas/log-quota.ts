/**
 * Logs within the quota of their tenant: what comes when a day's bytes are used up is not kept, and the log
 * says so where it ends. Runs are not touched by it.
 */
import { type LogLine, utf8Bytes } from '@belfry/contract'
import type { LogAppend, LogKept, WorkerStore } from '../../ports/worker-store.ts'
import type { Ask } from './quota-limits.ts'
import type { QuotaKeeper } from './quota-keeper.ts'

export function withLogQuota(
  workers: WorkerStore,
  keeper: Pick<QuotaKeeper, 'logBytes'>,
  askOf: (tenantId: string) => Ask,
): WorkerStore {
  const fits = async ({ tenantId, lines }: LogAppend): Promise<boolean> => {
    if (tenantId === undefined || lines.length === 0) return true
    return keeper.logBytes(tenantId, utf8Bytes(JSON.stringify(lines)), askOf(tenantId))
  }
  return {
    ...workers,
    async appendLogs(sessionId, chunks) {
      const within: boolean[] = []
      for (const chunk of chunks) within.push(await fits(chunk))
      const kept = await workers.appendLogs(
        sessionId,
        chunks.map((chunk, index) => (within[index] === true ? chunk : endedAt(chunk))),
      )
      return kept.map((each, index): LogKept => (within[index] === true ? each : { ...each, full: true }))
    },
  }
}

const words = 'Nothing more of this log is kept: the quota "logBytes" of the tenant is used up for now.'

/** One line in the place of those that are dropped. */
function endedAt(chunk: LogAppend): LogAppend {
  const [first] = chunk.lines
  if (first === undefined) return chunk
  const line: LogLine = { at: first.at, level: 'warn', message: words }
  return { ...chunk, lines: [line] }
}
