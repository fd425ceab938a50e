// Definitions of jobs as they are stored: what uses nothing new is stored in the words of the version before,
// whose workers execute it during an upgrade and refuse any word that they do not know.
import { expect, test } from 'vitest'
import { type JobDefinition, jobDefinitionSchema } from '../../packages/contract/src/jobs.ts'
import {
  definitionText,
  storedDefinition,
} from '../../packages/server/src/postgres/catalog/stored-definition.ts'

const wordsOfBefore = [
  'attemptTimeoutMs',
  'collect',
  'concurrency',
  'debounce',
  'delivery',
  'handler',
  'priority',
  'queue',
  'rateLimit',
  'retry',
  'runDeadlineMs',
  'startWithinMs',
]
const readBack = (definition: JobDefinition) =>
  JSON.parse(definitionText(definition)) as Record<string, unknown>
const http = { kind: 'http', url: 'https://example.com/x', method: 'PUT', headers: { a: 'b' }, body: 'c' }

test.each([http, { kind: 'function', name: 'report' }])('$kind in the words of before', (handler) => {
  const definition = jobDefinitionSchema.parse({ handler })
  const stored = readBack(definition)
  expect(Object.keys(stored).sort()).toEqual(wordsOfBefore)
  expect(stored['handler']).toEqual(handler)
  expect(storedDefinition(stored)).toEqual(definition)
})

test('what is used of the new is kept', () => {
  const definition = jobDefinitionSchema.parse({ handler: http, runAs: 'billing' })
  const stored = readBack(definition)
  expect(stored).toMatchObject({ runAs: 'billing' })
  expect(storedDefinition(stored)).toEqual(definition)
})
