/**
 * A definition as it was stored, with the defaults of fields that there were not yet when it was. It was
 * checked then, and is not again: a definition that the rules of today refuse must still be shown, and can
 * then be mended.
 */
import type { JobDefinition } from '@belfry/contract'
import { jobDefinitionSchema } from '@belfry/contract'

/** The handler in it stands for none: whatever was stored has its own. */
const defaults = jobDefinitionSchema.parse({ handler: { kind: 'function', name: 'any' } })

export function storedDefinition(stored: unknown): JobDefinition {
  const given = stored as JobDefinition
  return { ...defaults, ...given, retry: { ...defaults.retry, ...given.retry } }
}
