/**
 * Fills the placeholders of a template (contract/placeholders.ts), once: what is filled in is never read
 * again. `{{` that begins no placeholder stays as it is; saving refuses it, jobs of before may have it.
 */
import { templateParts } from '@belfry/contract'

export interface RunWords {
  readonly id: string
  readonly attempt: number
  /** Epoch ms; null for a run on demand, which fills in nothing. */
  readonly scheduledForMs: number | null
  readonly idempotencyKey: string
}

export type Filled =
  | { readonly ok: true; readonly text: string }
  /** The first secret that has no value. */
  | { readonly ok: false; readonly missing: string }

export function fill(text: string, secrets: ReadonlyMap<string, string>, run: RunWords): Filled {
  let filled = ''
  for (const part of templateParts(text)) {
    if (part.kind === 'secret') {
      const value = secrets.get(part.name)
      if (value === undefined) return { ok: false, missing: part.name }
      filled += value
    } else if (part.kind === 'run') {
      filled += runWord(part.field, run)
    } else {
      filled += part.text
    }
  }
  return { ok: true, text: filled }
}

function runWord(field: 'id' | 'attempt' | 'scheduledFor' | 'idempotencyKey', run: RunWords): string {
  switch (field) {
    case 'id':
      return run.id
    case 'attempt':
      return String(run.attempt)
    case 'scheduledFor':
      return run.scheduledForMs === null ? '' : new Date(run.scheduledForMs).toISOString()
    case 'idempotencyKey':
      return run.idempotencyKey
  }
}
