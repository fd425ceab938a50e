/**
 * Which secrets a handler names, and where it would send them. Saving a job, grants and the resolver all ask
 * here, so that none of them knows a secret of which another has not heard.
 *
 * A handler names a secret in one of three ways: `{"secret": NAME}` in a field made for it (a signing key,
 * the key of a client certificate, an OAuth2 client secret, an environment value), `{{secrets.NAME}}` in a
 * header or environment value, or a list `secrets` of names (functions).
 */
import { z } from 'zod'
import { placeholdersOf, secretNameSchema } from './placeholders.ts'

/** The value of a field whose content is a secret: never the value itself. */
export const secretRefSchema = z
  .strictObject({ secret: secretNameSchema.meta({ description: 'Name of a secret of the tenant' }) })
  .meta({ id: 'SecretRef', description: 'A secret by its name; its value is put in when an attempt begins' })
export type SecretRef = z.infer<typeof secretRefSchema>

/** Secrets that one handler may name. */
export const maxSecretsOfHandler = 32

const shownTargetLength = 200

/** Any handler, whatever its kind. */
type HandlerLike = { readonly kind: string }

/** Fields that hold the tenant's own content, in which nothing is looked for. */
const contentFields: ReadonlySet<string> = new Set(['body', 'input', 'payload', 'stdin', 'success'])
/** Fields whose values are templates. */
const templateFields: ReadonlySet<string> = new Set(['headers', 'env'])

/** Names of every secret that a handler names, sorted, each once. */
export function secretsOf(handler: HandlerLike): readonly string[] {
  const names = new Set<string>()
  collect(handler, false, names)
  return [...names].toSorted()
}

function collect(value: unknown, isTemplate: boolean, names: Set<string>): void {
  if (typeof value === 'string') {
    if (!isTemplate) return
    for (const found of placeholdersOf(value)) if (found.kind === 'secret') names.add(found.name)
    return
  }
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const each of value) collect(each, isTemplate, names)
    return
  }
  const ref = secretRefSchema.safeParse(value)
  // an environment variable may well be called "secret": there it is a name, and what it holds a template
  if (ref.success && !isTemplate) {
    names.add(ref.data.secret)
    return
  }
  for (const [key, each] of Object.entries(value)) {
    if (isTemplate) collect(each, typeof each === 'string', names)
    else if (key === 'secrets' && Array.isArray(each)) for (const name of each) names.add(String(name))
    else if (!contentFields.has(key)) collect(each, templateFields.has(key), names)
  }
}

/** What decides who gets to see what a program is given, in the order in which it is told. */
const decidingFields = [
  'name',
  'functionArn',
  'roleArn',
  'image',
  'entrypoint',
  'command',
  'workingDir',
  'egress',
  'env',
]

/**
 * Where a handler takes what it is given, as words. Of HTTP calls the origin of each URL; of every other kind
 * one text with all that decides, so that nothing of it can be left out either. A grant is bound to these, so
 * that whoever may edit a job cannot have its secrets sent to a place of his own.
 */
export function secretTargetsOf(handler: HandlerLike): readonly string[] {
  if (handler.kind !== 'http') return [programOf(handler)]
  const origins = new Set<string>()
  for (const [key, value] of Object.entries(handler))
    if (!contentFields.has(key) && !templateFields.has(key)) collectOrigins(key, value, origins)
  return [...origins].toSorted()
}

function programOf(handler: HandlerLike): string {
  const fields = new Map<string, unknown>(Object.entries(handler))
  const words = decidingFields.flatMap((field) => {
    const value = fields.get(field)
    if (value === undefined || value === null) return []
    return [`${field} ${typeof value === 'string' ? value : JSON.stringify(inOrder(value))}`]
  })
  return words.join(', ')
}

/** The database does not keep the order of fields. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** A target as it is shown: it may hold the arguments of a program. */
export const shownTarget = (target: string): string =>
  target.length <= shownTargetLength ? target : `${target.slice(0, shownTargetLength)}…`

function collectOrigins(key: string, value: unknown, targets: Set<string>): void {
  if (typeof value === 'string') {
    if (/url$/i.test(key) && URL.canParse(value)) targets.add(new URL(value).origin)
    return
  }
  if (typeof value !== 'object' || value === null) return
  for (const [inner, each] of Object.entries(value)) collectOrigins(inner, each, targets)
}
