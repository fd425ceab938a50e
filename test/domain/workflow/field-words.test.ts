// A body that a server refuses and a file that is refused without one: the same places in the same words, and
// where a field takes several forms, these with an example.
import { BelfryError, fieldFaults, workflowDefinitionSchema } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { validatePart } from '../../../packages/server/src/http/validation.ts'

function refused(body: object) {
  const checked = validatePart(workflowDefinitionSchema, 'body', body)
  if (!('error' in checked)) throw new Error('it was taken')
  expect(checked.error).toBeInstanceOf(BelfryError)
  const { error } = workflowDefinitionSchema.safeParse(body)
  expect(fieldFaults(workflowDefinitionSchema, body, error?.issues ?? [])).toEqual(checked.error.errors)
  return checked.error.errors
}

const work = { id: 'a', job: 'work' }

describe('the words for fields of a workflow', () => {
  it.each<[string, object, string, RegExp]>([
    ['wait', { id: 'a', wait: { hours: 1 } }, '/tasks/0/wait', /forMs.*until.*signal.*like \{forMs: 60000\}/],
    [
      'wait.until',
      { id: 'a', wait: { until: 5 } },
      '/tasks/0/wait',
      /until takes one of \{at: instant\}.*like/,
    ],
    ['when', { ...work, when: 'a' }, '/tasks/0/when', /is no condition.*like \{task: extract, in/],
    ['forEach', { ...work, forEach: { from: 1 } }, '/tasks/0/forEach/from', /\{items: \[…\]\}.*like/],
    ['inputFrom', { ...work, inputFrom: [{ to: '' }] }, '/tasks/0/inputFrom/0', /is no mapping.*like \{to: /],
    ['rule', { ...work, rule: 'all_success' }, '/tasks/0/rule', /one of all_succeeded.*mean "all_succeeded"/],
    ['a rule that is near', { ...work, rule: 'one_fail' }, '/tasks/0/rule', /mean "one_failed"/],
  ])('%s: are the same with and without a server', (_, task, pointer, words) => {
    const [fault] = refused({ tasks: [task] })
    expect(fault?.pointer).toBe(pointer)
    expect(fault?.message).toMatch(words)
  })

  it('triggers and outputs name their forms, too', () => {
    expect(refused({ tasks: [work], triggers: [{}] })).toMatchObject([{ pointer: '/triggers/0' }])
    const [fault] = refused({ tasks: [work], outputFrom: [{}] })
    expect(fault).toMatchObject({ pointer: '/outputFrom/0' })
    expect(fault?.message).toMatch(/one of \{task, path\}/)
  })
})
