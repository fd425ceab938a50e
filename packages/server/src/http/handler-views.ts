/**
 * Handlers as answers show them: in the order of the contract, because the database keeps the keys of a JSON
 * object in an order of its own, and without values of headers that carry secrets.
 */
import type { JobHandler, JobSummary } from '@belfry/contract'
import {
  containerHandlerSchema,
  containerLimitsSchema,
  functionHandlerSchema,
  httpHandlerSchema,
  lambdaHandlerSchema,
} from '@belfry/contract'
import type { JobSummaryRecord } from '../ports/catalog.ts'
import { maskedHeaders } from './secret-headers.ts'

const keys = {
  http: Object.keys(httpHandlerSchema.shape),
  function: Object.keys(functionHandlerSchema.shape),
  container: Object.keys(containerHandlerSchema.shape),
  lambda: Object.keys(lambdaHandlerSchema.shape),
} as const satisfies Record<JobHandler['kind'], readonly string[]>

const limitKeys = Object.keys(containerLimitsSchema.shape)

export function handlerView(handler: JobHandler): JobHandler {
  const shown = inOrder(handler, keys[handler.kind])
  if (shown.kind === 'http') return { ...shown, headers: maskedHeaders(shown.headers) }
  if (shown.kind === 'container') return { ...shown, limits: inOrder(shown.limits, limitKeys) }
  return shown
}

function inOrder<T extends object>(value: T, order: readonly string[]): T {
  const given = value as Readonly<Record<string, unknown>>
  return Object.fromEntries(
    order.filter((key) => given[key] !== undefined).map((key) => [key, given[key]]),
  ) as T
}

export function handlerSummary(handler: JobSummaryRecord['definition']['handler']): JobSummary['handler'] {
  switch (handler.kind) {
    case 'http':
      return { kind: 'http', url: handler.url, method: handler.method }
    case 'function':
      return { kind: 'function', name: handler.name }
    case 'container':
      return { kind: 'container', image: handler.image }
    case 'lambda':
      return { kind: 'lambda', functionArn: handler.functionArn }
    default:
      return handler satisfies never
  }
}
