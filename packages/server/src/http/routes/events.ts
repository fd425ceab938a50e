/**
 * The endpoint of events that begin workflows. The event, the runs that it begins and what is kept of it are
 * one transaction: sent again with the same key it answers what it did the first time. One that every
 * workflow refused began nothing, and leaves its key to the next.
 */
import { BelfryError } from '@belfry/contract'
import type { EventReceipt } from '@belfry/contract'
import { checkedRunInput } from '../../engine/catalog/workflow-input.ts'
import type { Endpoints } from '../endpoint.ts'

export const eventEndpoints: Pick<Endpoints, 'eventSend'> = {
  eventSend: {
    as: 'tenant',
    async answer({ tx, tools, body, after }) {
      const { events, runs: store } = tx.workflows
      const { event, key = null, payload } = body
      const nowMs = await tx.nowMs()
      const id = tools.ids.uuidv7(nowMs)
      const isNew = await events.insert({ id, name: event, key })
      const known = isNew || key === null ? undefined : await events.find(event, key)
      if (known !== undefined)
        return {
          body: { ...known, event, key, duplicate: true, runs: [...known.runs] },
          joined: true,
        }
      const runs: EventReceipt['runs'] = []
      const refused: EventReceipt['refused'] = []
      for (const { workflowId, input } of await events.triggered(event)) {
        const workflow = await tx.workflows.find(workflowId)
        if (workflow === undefined) continue
        const { name, definition } = workflow
        try {
          const given = checkedRunInput(
            workflow,
            input ?? payload,
            input === undefined ? '/payload' : '/input',
          )
          const run = {
            id: tools.ids.uuidv7(nowMs),
            workflow,
            input: given,
            timeoutMs: definition.timeoutMs ?? null,
          }
          const none = { scheduleId: null, scheduledForMs: null, intervalStartMs: null }
          await store.insert({ ...run, priority: null, origin: { source: 'event', causeId: id, ...none } })
          runs.push({ workflow: name, workflowRunId: run.id })
        } catch (error) {
          if (!(error instanceof BelfryError) || error.code !== 'invalid_request') throw error
          refused.push({
            workflow: name,
            message: error.message,
            errors: error.errors.map((each) => ({ ...each })),
          })
        }
      }
      if (runs.length > 0) {
        await events.note(
          id,
          runs.map(({ workflowRunId }) => workflowRunId),
          refused,
        )
        after({ kind: 'hint', hint: { topic: 'workflows', key: 'any' } })
      } else if (key !== null && refused.length > 0) await events.freeKey(id)
      return { body: { id, event, key, duplicate: false, runs, refused }, joined: false }
    },
  },
}
