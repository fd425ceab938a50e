/**
 * A definition as it was stored, with the defaults of fields that there were not yet when it was. It was
 * checked then, and is not again: a definition that the rules of today refuse must still be shown, and can
 * then be mended.
 */
import { isDeepStrictEqual } from 'node:util'
import type { JobDefinition } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'

/** The handler in it stands for none: whatever was stored has its own. */
const defaults = jobDefinitionSchema.parse({ handler: { kind: 'function', name: 'any' } })

export function storedDefinition(stored: unknown): JobDefinition {
  const given = stored as JobDefinition
  return { ...defaults, ...given, retry: { ...defaults.retry, ...given.retry } }
}

/** What each version has written, and SQL reads in part. It ends here: what comes later is never added. */
const alwaysStored: ReadonlySet<string> = new Set<keyof JobDefinition>([
  'handler',
  'retry',
  'attemptTimeoutMs',
  'runDeadlineMs',
  'startWithinMs',
  'delivery',
  'queue',
  'priority',
  'concurrency',
  'rateLimit',
  'debounce',
  'collect',
])

/**
 * As it is stored. A later field is left out while it has its default: during an upgrade workers of the
 * version before execute what this one stores, and they refuse a definition with a field unknown to them.
 */
export function definitionText(definition: JobDefinition): string {
  const written = Object.entries(definition).filter(
    ([field, value]) =>
      alwaysStored.has(field) || !isDeepStrictEqual(value, defaults[field as keyof JobDefinition]),
  )
  return JSON.stringify(Object.fromEntries(written))
}
