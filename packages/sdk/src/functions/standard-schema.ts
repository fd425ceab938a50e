/**
 * What Belfry needs of a schema library: the Standard Schema interface, version 1, which zod, valibot,
 * arktype and others implement (standardschema.dev). Only its shape is used, so none of them is a dependency.
 */

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    /** For the compiler only. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** What may be passed in, before the schema changes it. */
export type InputOf<Schema> = Schema extends StandardSchema<infer Input, unknown> ? Input : never
/** What comes out of the schema. */
export type OutputOf<Schema> = Schema extends StandardSchema<unknown, infer Output> ? Output : never

export interface SchemaFault {
  /** RFC 6901 pointer into the value. */
  readonly pointer: string
  readonly message: string
}

export function isSchema(value: unknown): boolean {
  const isThing = (typeof value === 'object' && value !== null) || typeof value === 'function'
  if (!isThing || !('~standard' in value)) return false
  const standard = value['~standard']
  return typeof standard === 'object' && standard !== null && 'validate' in standard
}

/** Checks a value; without a schema everything fits. */
export async function checkAgainst(
  schema: StandardSchema | undefined,
  value: unknown,
): Promise<{ readonly value: unknown } | { readonly faults: readonly SchemaFault[] }> {
  if (schema === undefined) return { value }
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return { value: result.value }
  return { faults: result.issues.map(({ message, path = [] }) => ({ pointer: pointerOf(path), message })) }
}

function pointerOf(path: NonNullable<SchemaIssue['path']>): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return keys.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** The first faults in one sentence. */
export function faultWords(faults: readonly SchemaFault[]): string {
  const shown = faults
    .slice(0, 3)
    .map(({ pointer, message }) => `${pointer === '' ? 'it' : pointer}: ${message}`)
  return `${shown.join('; ')}${faults.length > 3 ? `; and ${faults.length - 3} more` : ''}`
}
