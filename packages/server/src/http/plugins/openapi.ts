/**
 * The OpenAPI 3.1 document, made of the contract's routes as they are registered, and the route that serves
 * it. The committed copy (docs/reference/openapi.json) is compared with it by a test.
 */
import type { ErrorCode, Route, RouteName } from '@belfry/contract'
import {
  documentedErrors,
  errorTable,
  holdersOf,
  logCursorSchema,
  problemSchema,
  routes,
} from '@belfry/contract'
import swagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod'
import { z } from 'zod'

const tags = [
  { name: 'access', description: 'Who calls: tenants, API keys, members and their sessions' },
  { name: 'jobs', description: 'What is run, and how' },
  { name: 'schedules', description: 'When a job fires, and what became of each planned time' },
  { name: 'workflows', description: 'Jobs that depend on each other' },
  { name: 'runs', description: 'Executions of a job and their attempts' },
  {
    name: 'workers',
    description: 'How processes outside run functions: see docs/reference/worker-protocol.md',
  },
  { name: 'server', description: 'What the server itself runs, and computes times with' },
]

const description = `Ids are UUIDv7, times RFC 3339 in UTC, durations milliseconds with the unit in the name.
Unknown fields are refused. Failures are RFC 9457 problems with a stable \`code\`.
Lists are newest first; pass \`nextCursor\` back as \`cursor\` with the same filters until it is null. A page
may hold fewer items than asked for, also none, before the end: with a filter it looks at a bounded stretch.`

export async function describeApi(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Belfry',
        version,
        description,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      tags,
      components: {
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key, `bfy_…`, or the session of a person, `bfs_…`',
          },
          session: {
            type: 'apiKey',
            in: 'cookie',
            name: '__Host-belfry',
            description: 'The session of a person in a browser; changes need an `Origin` of the same place',
          },
        },
      },
    },
    transform: jsonSchemaTransform,
    transformObject: (document) => {
      const made: object = jsonSchemaTransformObject(document)
      return tidied(made)
    },
  })
}

type Description = {
  readonly paths?: Readonly<Record<string, object>>
  readonly components?: { readonly schemas?: Readonly<Record<string, unknown>> }
}
type Operation = { requestBody?: { required?: boolean }; responses?: Record<string, { content?: unknown }> }
const reference = '#/components/schemas/'

/**
 * Keeps of each schema what the routes use: as it comes in, as it goes out, or both. What only comes in needs
 * no name that says so. Bodies that may be left out say so, and an answer without a body has no content.
 */
function tidied(document: Description): Description {
  const used = usedSchemas(document)
  const all = document.components?.schemas ?? {}
  const plainName = (name: string): string => {
    const plain = name.replace(/Input$/, '')
    return used.has(plain) || !used.has(name) ? name : plain
  }
  const schemas = Object.fromEntries([...used].sort().map((name) => [plainName(name), all[name]] as const))
  const text = JSON.stringify({ ...document, components: { ...document.components, schemas } })
  const renamed = JSON.parse(
    text.replaceAll(
      /"#\/components\/schemas\/(\w+)"/g,
      (_whole, name: string) => `"${reference}${plainName(name)}"`,
    ),
  ) as Description
  for (const { method, path, body, status } of Object.values<Route>(routes)) {
    const item: Record<string, unknown> = { ...renamed.paths?.[path.replaceAll(/:(\w+)/g, '{$1}')] }
    const operation = item[method.toLowerCase()] as Operation
    if (operation.requestBody !== undefined && body?.safeParse({}).success === true)
      operation.requestBody.required = false
    if (status === 204) delete operation.responses?.['204']?.content
  }
  return renamed
}

/** The named schemas that the paths use, directly or by way of others. */
function usedSchemas(document: Description): ReadonlySet<string> {
  const all = document.components?.schemas ?? {}
  const used = new Set<string>()
  const visit = (part: unknown): void => {
    for (const [, name = ''] of JSON.stringify(part ?? null).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (used.has(name)) continue
      used.add(name)
      visit(all[name])
    }
  }
  visit(document.paths)
  return used
}

/** The route that serves it; made once, at the first request. */
export function serveDescription(app: FastifyInstance): void {
  app.get('/v1/openapi.json', { config: { access: 'public' }, schema: { hide: true } }, async () =>
    app.swagger(),
  )
}

const idempotencyKey = z
  .string()
  .regex(/^[\x21-\x7e]{1,255}$/, { error: 'must be 1 to 255 visible ASCII characters' })
  .optional()
  .meta({
    description:
      'The same key with the same request, within a day, answers as the first time ' +
      '(`Idempotency-Replayed: true`); with another request 422. Not looked at in a dry run.',
  })
const ifMatch = z
  .string()
  .max(1024)
  .optional()
  .meta({ description: 'Only if the present ETag is this one; else 412' })

/** The headers that a route reads, checked and documented; others pass. */
function headersOf(route: Route): z.ZodType | undefined {
  const named = {
    ...(route.effect === 'create' ? { 'idempotency-key': idempotencyKey } : {}),
    ...(route.errors.includes('precondition_failed') ? { 'if-match': ifMatch } : {}),
    ...(route.media === 'text/event-stream' ? { 'last-event-id': logCursorSchema.optional() } : {}),
  }
  return Object.keys(named).length === 0 ? undefined : z.looseObject(named)
}

function descriptionOf({ permission }: Route): string {
  if (permission === 'public') return 'Takes no key.'
  if (permission === 'any_key') return 'Any key may call this.'
  const named = holdersOf(permission).scopes.map((scope) => `\`${scope}\``)
  return `Needs the permission \`${permission}\`, which the scopes ${named.join(', ')} contain.`
}

/** Fastify's schema of a contract route. */
export function schemaOf(name: RouteName, route: Route): Record<string, unknown> {
  const headers = headersOf(route)
  return {
    operationId: name,
    summary: route.summary,
    description: descriptionOf(route),
    tags: [route.tag],
    security: route.permission === 'public' ? [] : [{ apiKey: [] }, { session: [] }],
    ...(route.params === undefined ? {} : { params: route.params }),
    ...(route.query === undefined ? {} : { querystring: route.query }),
    ...(route.body === undefined ? {} : { body: route.body }),
    ...(headers === undefined ? {} : { headers }),
    response: {
      [route.status]: successOf(route, route.status),
      ...(route.joinedStatus === undefined
        ? {}
        : { [route.joinedStatus]: successOf(route, 'Nothing was made: it is part of what was there') }),
      ...problemsOf(route),
    },
  }
}

function successOf(route: Route, said: number | string): unknown {
  const words: Readonly<Record<number, string>> = {
    200: 'Done',
    201: 'Made; `Location` says where it is',
    202: 'Accepted',
    204: 'Done; there is nothing to say',
  }
  const schema = route.response ?? z.null()
  const description = typeof said === 'string' ? said : words[said]
  return { description, content: { [route.media ?? 'application/json']: { schema } } }
}

/** The documented errors, by status. */
function problemsOf(route: Route): Record<number, unknown> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of documentedErrors(route)) {
    const { status } = errorTable[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  const sorted = [...byStatus].sort(([a], [b]) => a - b)
  return Object.fromEntries(
    sorted.map(([status, codes]) => [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${errorTable[code].title}`).join('; '),
        content: { 'application/problem+json': { schema: problemSchema } },
      },
    ]),
  )
}
