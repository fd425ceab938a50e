// What tests of acts by hand on workflow runs share: workflow runs that were played to their end, and what an
// act answers, in short.
import type { WorkflowRunActed } from '@belfry/contract'
import type { Answer } from './api.ts'
import type { WorkflowApi } from './workflow-api.ts'

const handler = { kind: 'http', url: 'https://example.com/hook' }

export const task = (id: string, needs: readonly string[] = [], more: object = {}) => ({
  id,
  handler,
  needs,
  ...more,
})

export const chain = {
  tasks: [task('a'), task('b', ['a']), task('c', ['b']), task('apart')],
  finally: [task('tidy')],
}

export const acted = ({ body }: Answer) => body as unknown as WorkflowRunActed

/** "what comes of it, and its state then", by task. */
export const effects = (answer: Answer) =>
  Object.fromEntries(acted(answer).tasks.map(({ id, effect, after }) => [id, `${effect} ${after}`]))

/** How many runs each task has. */
export async function runCounts({ t }: WorkflowApi, id: string): Promise<Record<string, number>> {
  const { tasks } = (await t.call('GET', `/v1/workflow-runs/${id}/tasks`)).body
  const rows = tasks as unknown as readonly { readonly id: string; readonly runs: number }[]
  return Object.fromEntries(rows.map((row) => [row.id, row.runs]))
}

/** Runs it to its end; these tasks fail. Answers the id of the workflow run. */
export async function played(w: WorkflowApi, definition: object, failing: readonly string[] = []) {
  const { name } = await w.store(definition)
  const id = await w.ask(name)
  await w.play(id, (each) => (failing.includes(each) ? 'failed' : undefined))
  return id
}
