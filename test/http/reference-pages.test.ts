// What is generated from the code is committed as it would be generated now, and the OpenAPI document says
// what the API does.
import { readFileSync } from 'node:fs'
import { documentedErrors, errorTable, type Route, type RouteName, routes } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { referencePages } from '../../scripts/lib/reference-pages.ts'

const committed = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

it.each(referencePages)('$file is up to date (npm run docs)', async ({ file, render }) => {
  expect(committed(file)).toBe(await render())
})

describe('openapi.json', () => {
  type Operation = {
    readonly operationId: string
    readonly security: unknown
    readonly responses: Readonly<Record<string, { readonly description: string }>>
  }
  const document = JSON.parse(committed('docs/reference/openapi.json')) as {
    readonly openapi: string
    readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
    readonly components: { readonly schemas: object }
  }

  it('is OpenAPI 3.1 and has no dangling reference', () => {
    expect(document.openapi).toBe('3.1.0')
    const text = JSON.stringify(document)
    for (const [, name = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      expect(Object.keys(document.components.schemas)).toContain(name)
    }
    expect(text).not.toContain('__schema')
    for (const [, name = ''] of text.matchAll(/"\$ref":"([^"]+)"/g))
      expect(name).toMatch(/^#\/components\/schemas\//)
  })

  it.each(Object.keys(routes) as RouteName[])('%s documents its status and every error', (name) => {
    const route: Route = routes[name]
    const operation = document.paths[route.path.replace(/:(\w+)/, '{$1}')]?.[route.method.toLowerCase()]
    expect(operation?.operationId).toBe(name)
    expect(operation?.security).toEqual(
      route.permission === 'public' ? [] : [{ apiKey: [] }, { session: [] }],
    )
    const errors = documentedErrors(route)
    const joined = route.joinedStatus === undefined ? [] : [String(route.joinedStatus)]
    const failures = errors.map((code) => String(errorTable[code].status))
    const statuses = new Set([String(route.status), ...joined, ...failures])
    expect(new Set(Object.keys(operation?.responses ?? {}))).toEqual(statuses)
    for (const code of errors) {
      expect(operation?.responses[errorTable[code].status]?.description).toContain(`\`${code}\``)
    }
  })

  it('describes no more routes than there are', () => {
    const described = Object.values(document.paths).flatMap((item) => Object.keys(item))
    expect(described).toHaveLength(Object.keys(routes).length)
  })
})
