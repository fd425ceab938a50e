// Walks a parsed file. The tree is treated as plain data (objects with a `type`), because the rules ask only
// a few simple questions and should not depend on every detail of the parser's types.
import type { SourceFile } from './source-file.ts'

export type Node = { readonly type: string; readonly start: number; readonly end: number } & {
  readonly [field: string]: unknown
}

export type Visit = (node: Node, ancestors: readonly Node[]) => void

export function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}

/** Calls `visit` for every node, outermost first, with the nodes around it (nearest last). */
export function walk(file: SourceFile, visit: Visit): void {
  if (file.parsed !== undefined) walkFrom(file.parsed.program, [], visit)
}

function walkFrom(value: unknown, ancestors: readonly Node[], visit: Visit): void {
  if (Array.isArray(value)) {
    for (const item of value) walkFrom(item, ancestors, visit)
  } else if (isNode(value)) {
    visit(value, ancestors)
    const inner = [...ancestors, value]
    for (const field of Object.keys(value)) walkFrom(value[field], inner, visit)
  }
}

export function nameOf(value: unknown): string | undefined {
  return isNode(value) && value.type === 'Identifier' && typeof value['name'] === 'string'
    ? value['name']
    : undefined
}

/** `a.b.c` for a member expression of plain names, `a` for a name, else undefined. */
export function dottedName(value: unknown): string | undefined {
  if (!isNode(value)) return undefined
  if (value.type !== 'MemberExpression') return nameOf(value)
  const object = dottedName(value['object'])
  const property = nameOf(value['property'])
  return object === undefined || property === undefined ? undefined : `${object}.${property}`
}

export type Import = {
  readonly specifier: string
  readonly offset: number
  /** `value` loads the module with the importing one, `dynamic` when asked, `type` never. */
  readonly kind: 'value' | 'dynamic' | 'type'
  /** Imported names; empty for `import 'x'`, namespace imports and dynamic imports. */
  readonly names: readonly string[]
}

/** Everything that the file imports or re-exports. */
export function importsOf(file: SourceFile): Import[] {
  if (file.parsed === undefined) return []
  return [...staticImports(file.parsed), ...reExports(file.parsed), ...otherImports(file)]
}

type Parsed = NonNullable<SourceFile['parsed']>

function staticImports(parsed: Parsed): Import[] {
  return parsed.module.staticImports.map((item) => ({
    specifier: item.moduleRequest.value,
    offset: item.start,
    kind: item.entries.length > 0 && item.entries.every((entry) => entry.isType) ? 'type' : 'value',
    names: item.entries.flatMap((entry) => entry.importName.name ?? []),
  }))
}

function reExports(parsed: Parsed): Import[] {
  return parsed.module.staticExports.flatMap((item) => {
    const from = item.entries.find((entry) => entry.moduleRequest !== null)?.moduleRequest
    if (from === undefined || from === null) return []
    const kind = item.entries.every((entry) => entry.isType) ? 'type' : 'value'
    return [{ specifier: from.value, offset: item.start, kind, names: [] }]
  })
}

/** `import('x')` as an expression and as a type. */
function otherImports(file: SourceFile): Import[] {
  const found: Import[] = []
  walk(file, (node) => {
    if (node.type !== 'ImportExpression' && node.type !== 'TSImportType') return
    const source = node['source']
    if (!isNode(source) || typeof source['value'] !== 'string') return
    const kind = node.type === 'ImportExpression' ? 'dynamic' : 'type'
    found.push({ specifier: source['value'], offset: node.start, kind, names: [] })
  })
  return found
}
