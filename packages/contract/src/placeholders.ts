/**
 * Placeholders: the few words in double braces that a header value or an environment value of a job may hold.
 * A closed list and no language: there is nothing to evaluate. They are filled once, when an attempt begins
 * (domain/template.ts); what is filled in is never read again, and inputs, bodies and outputs are never
 * templates. Text that only looks like a placeholder is refused when it is saved.
 */
import type { z } from 'zod'
import { nameSchema } from './common.ts'

/** Names of secrets: what fits in a URL and in a placeholder. */
export const secretNameSchema = nameSchema

/** What a run says of itself: `{{run.id}}` and so on. */
export const runPlaceholders = ['id', 'attempt', 'scheduledFor', 'idempotencyKey'] as const
export type RunPlaceholder = (typeof runPlaceholders)[number]

export type Placeholder =
  | { readonly kind: 'secret'; readonly name: string }
  | { readonly kind: 'run'; readonly field: RunPlaceholder }

/** A template in order: literal text, placeholders, and `{{` that begins none of them. */
export type TemplatePart =
  | { readonly kind: 'text' | 'unknown'; readonly text: string }
  | (Placeholder & { readonly text: string })

/** `{{secret:NAME}}` is the same, for those who know it from elsewhere. */
const known = /\{\{(?:secret(?:s\.|:)([A-Za-z0-9][A-Za-z0-9._-]{0,127})|run\.([A-Za-z]+))\}\}/y

/** The one reader of templates: saving, grants and filling agree because they all read by it. */
export function templateParts(text: string): readonly TemplatePart[] {
  const parts: TemplatePart[] = []
  let from = 0
  for (let at = text.indexOf('{{'); at >= 0; at = text.indexOf('{{', from)) {
    if (at > from) parts.push({ kind: 'text', text: text.slice(from, at) })
    const found = placeholderAt(text, at)
    parts.push(found ?? { kind: 'unknown', text: '{{' })
    from = at + (found?.text.length ?? 2)
  }
  if (from < text.length) parts.push({ kind: 'text', text: text.slice(from) })
  return parts
}

function placeholderAt(text: string, at: number): (Placeholder & { readonly text: string }) | undefined {
  known.lastIndex = at
  const [whole, name, word] = known.exec(text) ?? []
  if (whole === undefined) return undefined
  if (name !== undefined) return { kind: 'secret', name, text: whole }
  const field = runPlaceholders.find((each) => each === word)
  return field === undefined ? undefined : { kind: 'run', field, text: whole }
}

/** Every placeholder of a template, in order, repeated as they repeat. */
export const placeholdersOf = (text: string): readonly Placeholder[] =>
  templateParts(text).flatMap((part) => (part.kind === 'secret' || part.kind === 'run' ? [part] : []))

const list = ['{{secrets.NAME}}', ...runPlaceholders.map((field) => `{{run.${field}}}`)]

/** For words: every placeholder there is. */
export const placeholderList = `${list.slice(0, -1).join(', ')} and ${list.at(-1) ?? ''}`

/** Why a text is no template, with the fix; undefined where it is one. */
export function templateFault(text: string): string | undefined {
  if (!templateParts(text).some((part) => part.kind === 'unknown')) return undefined
  return `holds "{{" that begins no placeholder; there are only ${placeholderList}, written without blanks`
}

/** A text schema that takes templates: `templateOf(z.string().max(100))`. */
export const templateOf = (text: z.ZodString) =>
  text.superRefine((value, context) => {
    const message = templateFault(value)
    if (message !== undefined) context.addIssue({ code: 'custom', message })
  })
