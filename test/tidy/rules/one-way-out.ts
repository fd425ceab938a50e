// One way out: no file under packages/ opens a connection unless it stands in lib/ways-out.ts, and clients
// that take a way out are given ours. So no new feature can call an address that the egress rules refuse.
import type { Rule, SourceFile, Violation } from '../lib/source-file.ts'
import { violation } from '../lib/source-file.ts'
import { importsOf, isNode, type Node, nameOf, walk } from '../lib/syntax.ts'
import { connecting, connectingGlobals, givenWayOut, type WayOut, waysOut } from '../lib/ways-out.ts'

const held = /^packages\/[^/]+\/src\//
/** Where the whole repository is looked at, and so a line without its use is one too many. */
const landmark = 'packages/server/src/security/egress/egress.ts'

interface Use {
  readonly name: string
  readonly offset: number
}

function connectingImports(file: SourceFile): Use[] {
  return importsOf(file).flatMap(({ specifier: name, offset, kind }) => {
    const safe = connecting[name]
    return safe === undefined || kind === 'type' || isSafe(file, offset, safe) ? [] : [{ name, offset }]
  })
}

/** A static import of nothing but types and names that do not connect. */
function isSafe(file: SourceFile, offset: number, safe: readonly string[]): boolean {
  const entries = file.parsed?.module.staticImports.find(({ start }) => start === offset)?.entries ?? []
  return (
    entries.length > 0 && entries.every((entry) => entry.isType || safe.includes(entry.importName.name ?? ''))
  )
}

/** Positions in which a name is not the global of that name. */
function isOther(node: Node, parent: Node | undefined): boolean {
  if (parent === undefined) return false
  switch (parent.type) {
    case 'MemberExpression':
      return parent['property'] === node && parent['computed'] !== true && !isGlobalObject(parent['object'])
    case 'Property':
      return parent['key'] === node && parent['shorthand'] !== true
    case 'TSPropertySignature':
    case 'TSMethodSignature':
    case 'PropertyDefinition':
    case 'MethodDefinition':
      return parent['key'] === node
    case 'TSTypeReference':
    case 'TSTypeQuery':
    case 'TSInterfaceHeritage':
      return true
    default:
      return false
  }
}

const isGlobalObject = (node: unknown): boolean =>
  ['globalThis', 'window', 'self'].includes(nameOf(node) ?? '')

const declaring = new Set([
  'FunctionDeclaration',
  'VariableDeclarator',
  'ArrowFunctionExpression',
  'FunctionExpression',
])

/** `fetch`, `{ fetch }` and `{ fetch = other }`. */
function namesIn(pattern: unknown): string[] {
  const name = nameOf(pattern)
  if (name !== undefined) return [name]
  if (!isNode(pattern)) return []
  if (pattern.type === 'AssignmentPattern') return namesIn(pattern['left'])
  if (pattern.type !== 'ObjectPattern' || !Array.isArray(pattern['properties'])) return []
  return (pattern['properties'] as unknown[]).flatMap((each) => (isNode(each) ? namesIn(each['value']) : []))
}

/** Names that the file gives something of its own. */
function declaredIn(file: SourceFile): ReadonlySet<string> {
  const names = new Set<string>()
  walk(file, (node) => {
    if (!declaring.has(node.type)) return
    if (isGlobalObject(node['init'])) return
    const params = Array.isArray(node['params']) ? (node['params'] as unknown[]) : []
    for (const name of [node['id'], ...params].flatMap(namesIn)) names.add(name)
  })
  return names
}

function globalsUsed(file: SourceFile): Use[] {
  const own = declaredIn(file)
  const found: Use[] = []
  walk(file, (node, ancestors) => {
    const name = nameOf(node)
    if (name === undefined || !connectingGlobals.has(name) || own.has(name)) return
    if (!isOther(node, ancestors.at(-1))) found.push({ name, offset: node.start })
  })
  return found
}

const covers = ({ path }: WayOut, file: string): boolean =>
  path.endsWith('/') ? file.startsWith(path) : file === path

function withoutOurs(file: SourceFile): Violation[] {
  return importsOf(file).flatMap(({ specifier, kind, offset }) => {
    const word = givenWayOut[specifier]
    if (word === undefined || kind === 'type' || file.text.includes(word)) return []
    return [violation(file, offset, `${specifier} without ${word}; give it the way out of security/egress`)]
  })
}

export const oneWayOut: Rule = {
  name: 'connections are opened where lib/ways-out.ts says, and nowhere else',
  check(files) {
    const used = new Set<string>()
    const wrong = files
      .filter((file) => held.test(file.path) && file.parsed !== undefined)
      .flatMap((file) => [
        ...withoutOurs(file),
        ...[...connectingImports(file), ...globalsUsed(file)].flatMap(({ name, offset }) => {
          const ways = waysOut.filter((way) => covers(way, file.path) && way.uses.includes(name))
          for (const { path } of ways) used.add(`${path} ${name}`)
          const fix = 'call by the egress module, or add it to test/tidy/lib/ways-out.ts with its reason'
          return ways.length > 0 ? [] : [violation(file, offset, `${name} connects; ${fix}`)]
        }),
      ])
    const list = files.find(({ path }) => path === 'test/tidy/lib/ways-out.ts')
    if (list === undefined || !files.some(({ path }) => path === landmark)) return wrong
    const unused = waysOut.flatMap(({ path, uses }) => uses.map((use) => `${path} ${use}`))
    return [
      ...wrong,
      ...unused
        .filter((line) => !used.has(line))
        .map((line) => violation(list, 0, `${line} is listed and not used; take it out`)),
    ]
  },
}
