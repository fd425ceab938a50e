// Why a task that waited ended as it did: who decided, when and with which words, and what did not come in
// time. Over the API, as `belfry workflow-run explain` shows it.
import type { WorkflowRunExplanation } from '@belfry/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWorkflowApi, type WorkflowApi } from '../support/workflow-api.ts'

let w: WorkflowApi
beforeAll(async () => {
  w = await openWorkflowApi()
})
afterAll(() => w.close())

const handler = { kind: 'http', url: 'https://example.com/hook' }
async function explain(id: string, task: string): Promise<WorkflowRunExplanation> {
  const { status, body } = await w.t.call('GET', `/v1/workflow-runs/${id}/explanation?task=${task}`)
  expect(status).toBe(200)
  return body as unknown as WorkflowRunExplanation
}

it('says who ended an approval or a signal, when and why, and what came too late', async () => {
  const each = { forEach: { from: { items: ['eu', 'us'] } } }
  const id = await w.ask(
    (
      await w.store({
        tasks: [
          { id: 'ship', approval: { message: 'Ship it?' } },
          { id: 'soft', approval: { message: 'Soft?', onReject: 'skipped' } },
          { id: 'part', approval: { message: 'Part?' }, ...each },
          { id: 'late', approval: { message: 'Late?', atMostMs: 60_000 } },
          { id: 'paid', wait: { signal: 'paid', atMostMs: 60_000 } },
          { id: 'heard', wait: { signal: 'heard' } },
          { id: 'fine', approval: { message: 'Fine?' } },
          { id: 'open', approval: { message: 'Open?' } },
          { id: 'next', handler, needs: ['ship'] },
        ],
      })
    ).name,
  )
  await w.resolver.runOnce()
  const name = (await w.act(id, 'approve', { task: 'fine', reason: 'looks good' })).status === 200
  expect(name).toBe(true)
  await w.act(id, 'reject', { task: 'ship', reason: 'too risky' })
  await w.act(id, 'reject', { task: 'soft', reason: 'not today' })
  await w.act(id, 'approve', { task: 'part', item: 0 })
  await w.act(id, 'reject', { task: 'part', item: 1, reason: 'closed' })
  await w.act(id, 'signal', { signal: 'heard' })
  await w.t.database.sql('UPDATE belfry.task_wait SET due_at = belfry.now() WHERE due_at IS NOT NULL')
  await w.resolver.runOnce()
  await w.resolver.runOnce()
  const by = String(
    (
      await w.t.database.sql<{ name: string }>(
        "SELECT ended_by ->> 'name' AS name FROM belfry.task_wait " + 'WHERE ended_by IS NOT NULL LIMIT 1',
      )
    )[0]?.name,
  )
  const at = String.raw`at \d{4}-\d\d-\d\dT[\d:.]+Z`
  const messages: Record<string, RegExp> = {
    ship: new RegExp(`^The approval "Ship it\\?" was rejected by ${by} ${at}: too risky\\.$`),
    soft: new RegExp(`^The approval "Soft\\?" was rejected by ${by} ${at}: not today\\.$`),
    part: new RegExp(`^The approval of item 1 "Part\\?" was rejected by ${by} ${at}: closed\\.$`),
    late: /^The approval "Late\?" was not decided until .*Z; its "onTimeout" says failed\.$/,
    paid: /^The signal "paid" did not come until .*Z; its "onTimeout" says failed\.$/,
    heard: new RegExp(`^The signal "heard" came from ${by} ${at}\\.$`),
    fine: new RegExp(`^The approval "Fine\\?" was approved by ${by} ${at}: looks good\\.$`),
  }
  for (const [task, message] of Object.entries(messages)) {
    const told = await explain(id, task)
    expect(told.message).toMatch(message)
    expect(told).toMatchObject({ verdict: 'ended', causes: [task] })
    expect(told.since).not.toBe(null)
  }
  const ship = await explain(id, 'ship')
  expect(ship.fix).toContain(`belfry workflow-run rerun ${id} --from ship`)
  expect((await explain(id, 'next')).message).toContain('too risky')
  await w.act(id, 'cancel')
  await w.resolver.runOnce()
  await w.resolver.runOnce()
  expect((await explain(id, 'open')).message).toMatch(
    /^The approval "Open\?" was canceled at .*Z: Canceled with its workflow run\.$/,
  )
})
