// What is said of the differences of two versions.
import { type WorkflowDefinition, workflowDefinitionSchema } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { differences } from '../../../packages/server/src/domain/workflow/diff.ts'

const definition = (parts: object): WorkflowDefinition => workflowDefinitionSchema.parse(parts)
const task = (id: string, more: object = {}) => ({ id, job: 'work', ...more })
const words = (before: object, after: object) =>
  differences(
    { description: '', definition: definition(before) },
    { description: '', definition: definition(after) },
  ).map(({ kind, task: of, message }) => [kind, of, message])

describe('differences', () => {
  it('of the same there are none, in whatever order its tasks and needs are', () => {
    const [a, b, c] = [task('a'), task('b'), task('c', { needs: ['a', 'b'] })]
    expect(words({ tasks: [a, b, c] }, { tasks: [{ ...c, needs: ['b', 'a'] }, b, a] })).toEqual([])
  })

  it('tell tasks that came, went and moved', () => {
    const before = { tasks: [task('a'), task('b'), task('c')] }
    const after = { tasks: [task('a'), task('d', { needs: ['a'] })], finally: [task('c')] }
    expect(words(before, after)).toEqual([
      ['removed', 'b', 'b was removed'],
      ['changed', 'c', 'c: moved from tasks to finally'],
      ['added', 'd', 'd was added, which needs a'],
    ])
    expect(words(before, { ...before, finally: [task('z')] })).toEqual([
      ['added', 'z', 'z was added to finally'],
    ])
  })

  it('tell each field of a task, and of the workflow itself', () => {
    const handler = {
      kind: 'http',
      url: 'https://example.com/',
      headers: { 'X-Team': 'a', Cookie: 'secret' },
    }
    const before = { tasks: [task('a'), { id: 'b', handler, needs: ['a'], retry: { maxAttempts: 2 } }] }
    const headers = { 'X-Team': 'b', Cookie: 'other' }
    const b = { id: 'b', handler: { ...handler, headers }, rule: 'all_done', retry: { maxAttempts: 3 } }
    const after = { tasks: [task('a'), { ...b, needs: [] }], timeoutMs: 5_000, failFast: 'finish_running' }
    expect(words(before, after)).toEqual([
      ['changed', null, 'failFast off → finish_running'],
      ['changed', null, 'timeoutMs 5000 was added'],
      ['changed', 'b', 'b: handler.headers.X-Team a → b'],
      ['changed', 'b', 'b: handler.headers.Cookie has another value'],
      ['changed', 'b', 'b: needs no longer a'],
      ['changed', 'b', 'b: rule none_failed_min_one_success → all_done'],
      ['changed', 'b', 'b: retry.maxAttempts 2 → 3'],
    ])
  })

  it('never tell a secret of a handler that came or went', () => {
    const handler = { kind: 'http', url: 'https://example.com/', headers: { Cookie: 'secret' } }
    const told = JSON.stringify([
      words({ tasks: [task('a')] }, { tasks: [{ id: 'a', handler }] }),
      words(
        { tasks: [{ id: 'a', handler }] },
        { tasks: [{ id: 'a', handler: { ...handler, headers: {} } }] },
      ),
    ])
    expect(told).toContain('handler http https://example.com/ was added')
    expect(told).not.toContain('secret')
  })
})
