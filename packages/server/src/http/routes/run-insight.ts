/**
 * Endpoints that follow one run: its log as a stream, the wait for its end, and why it is as it is. Whose the
 * run is, is asked in a transaction of the tenant first; then it is followed outside of any
 * (engine/run-watcher.ts).
 */
import { isTerminal, maxShownAttempts, parseLogCursor } from '@belfry/contract'
import type { RunRecord } from '../../ports/catalog.ts'
import type { Endpoints } from '../endpoint.ts'
import { followLog } from '../event-stream.ts'
import { explainRunNow } from '../explain-run-now.ts'
import { noSuch, noSuchRun } from '../missing.ts'
import { runView } from '../views.ts'

const fromTheBegin = { attempt: 0, line: -1 }
const shown = { before: null, limit: maxShownAttempts }

export const runInsightEndpoints: Pick<Endpoints, 'runLogStream' | 'runWait' | 'runExplain'> = {
  runLogStream: {
    as: 'stream',
    async answer({ params, query, within, watcher, lastEventId, open, heartbeatMs }) {
      const found = await within((tx) => tx.runs.find(params.id, { before: null, limit: 1 }))
      if (found === undefined) throw noSuch('run', params.id)
      const from = parseLogCursor(lastEventId ?? query.after ?? '') ?? fromTheBegin
      const stream = open()
      return { stream, events: followLog(watcher, stream, params.id, from, heartbeatMs) }
    },
  },
  runWait: {
    as: 'waiting',
    async answer({ params, query, within, watcher, signal }) {
      const read = async (): Promise<RunRecord> => {
        const run = await within((tx) => tx.runs.find(params.id, shown))
        if (run === undefined) throw noSuch('run', params.id)
        return run
      }
      const run = await read()
      if (isTerminal(run.state) || query.waitMs === 0) return { body: runView(run) }
      const end = { runId: params.id, after: null }
      await watcher.next({ ...end, waitMs: query.waitMs, signal })
      return { body: runView(await read()) }
    },
  },
  runExplain: {
    as: 'waiting',
    async answer({ params, within, watcher }) {
      const body = await explainRunNow({ within, watcher }, params.id)
      if (body === undefined) throw await within((tx) => noSuchRun(tx, 'run', params.id))
      return { body }
    },
  },
}
