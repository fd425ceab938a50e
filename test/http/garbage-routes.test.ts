// Every route of the contract under what its own schema nearly describes: an answer or a problem with a code
// that the route documents and a place to look at, never a 500; and a dry run stores nothing. New routes and
// fields are tried as soon as the contract has them.
import { documentedErrors, type Route, routes } from '@belfry/contract'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { isOfPlatform } from '../support/rights.ts'
import { type JsonSchema, nearlyValid } from '../support/nearly-valid.ts'

const RUNS = 60

let t: TestApi
let platformKey: string
let ids: readonly string[]
let before: Record<string, number>
beforeAll(async () => {
  t = await startTestApi()
  platformKey = await t.keyFor('platform', ['platform'])
  const made = [
    await t.call('POST', '/v1/jobs', { body: httpJob('known') }),
    await t.call('POST', '/v1/schedules', { body: { name: 'known', job: 'known', every: '1h' } }),
    await t.call('POST', '/v1/runs', { body: { job: 'known' } }),
  ]
  for (const { status, body } of made) if (status !== 201) throw new Error(JSON.stringify(body))
  ids = made.map(({ body }) => body.id)
  // what follows a run would wait for the end of one that is alive
  await t.call('POST', `/v1/runs/${ids[2]}/cancel`, { body: {} })
  before = await t.counts()
})
afterAll(() => t.close())

function schemaOf(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema
}

/** As it stands in a query. */
const textOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))

type Sent = { readonly id: string; readonly query: string; readonly body: unknown }

/** Dots alone would be taken for a way through the path. */
const anyId = fc.string({ minLength: 1, maxLength: 50 }).filter((id) => !/^\.{1,2}$/.test(id))

/** A dry run wherever something would be stored. */
function sentTo(route: Route): fc.Arbitrary<Sent> {
  const querySchema = route.query === undefined ? undefined : schemaOf(route.query)
  const query =
    querySchema === undefined
      ? fc.constant({})
      : fc.record(
          Object.fromEntries(
            Object.entries(querySchema.properties ?? {})
              .filter(([key]) => key !== 'dryRun')
              .map(([key, part]) => [key, nearlyValid(part, querySchema, key).map(textOf)]),
          ),
          { requiredKeys: [] },
        )
  const bodySchema = route.body === undefined ? undefined : schemaOf(route.body)
  return fc.record({
    id: fc.oneof(fc.constantFrom(...ids), fc.uuid({ version: 7 }), anyId),
    query: query.map((each) => {
      const dry = route.effect === 'none' ? {} : { dryRun: 'true' }
      const wellFormed = Object.entries(each).map(([key, value]) => [key, textOf(value).toWellFormed()])
      return new URLSearchParams({ ...Object.fromEntries(wellFormed), ...dry } as Record<
        string,
        string
      >).toString()
    }),
    body: bodySchema === undefined ? fc.constant(undefined) : nearlyValid(bodySchema, bodySchema),
  })
}

describe('what nearly fits the schema of a route', () => {
  it.each(Object.entries(routes) as [string, Route][])(
    '%s answers, or says what is wrong',
    async (_, route) => {
      const documented = documentedErrors(route) as readonly string[]
      const key = isOfPlatform(route) ? platformKey : t.adminKey
      await fc.assert(
        fc.asyncProperty(sentTo(route), async ({ id, query, body }) => {
          const path = route.path.replace(/:\w+/g, encodeURIComponent(id.toWellFormed()))
          const sent = body === undefined ? {} : { raw: JSON.stringify(body) ?? 'null' }
          const answer = await t.call(route.method, `${path}?${query}`, { key, ...sent })
          const shown = JSON.stringify(answer.body)
          expect(answer.status, shown).toBeLessThan(500)
          if (answer.status < 400) return
          expect(documented, shown).toContain(answer.body.code)
          expect(answer.body.detail.length, shown).toBeGreaterThan(10)
          if (answer.body.code !== 'invalid_request' && answer.body.code !== 'invalid_schedule') return
          expect(answer.body.errors.length, shown).toBeGreaterThan(0)
          for (const { pointer, message } of answer.body.errors) {
            expect(pointer, shown).toMatch(/^$|^\//)
            expect(message.length, shown).toBeGreaterThan(5)
          }
        }),
        { numRuns: RUNS },
      )
      expect(await t.counts()).toEqual(before)
    },
  )
})
