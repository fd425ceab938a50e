// No bare clock, timer, randomness or id in domain/ and engine/: they come in through ports, so that a seeded
// simulation can drive the real code. Passing one of them on is reported as well as calling it.
import { type Rule, type SourceFile, type Violation, violation } from '../lib/source-file.ts'
import { dottedName, importsOf, type Node, nameOf, walk } from '../lib/syntax.ts'

const held = /^packages\/server\/src\/(?:domain|engine)\//

const members = new Set([
  'Date.now',
  'Math.random',
  'performance.now',
  'performance.timeOrigin',
  'process.hrtime',
  'process.uptime',
  'AbortSignal.timeout',
  'crypto.randomUUID',
  'crypto.getRandomValues',
  'crypto.randomBytes',
  'crypto.randomInt',
])
const globals = new Set(['setTimeout', 'setInterval', 'setImmediate', 'randomUUID'])
const modules = new Set(['node:timers', 'node:timers/promises', 'node:perf_hooks'])
const chanceFromCrypto = /^(?:random|getRandom|webcrypto|generate)/

function isDateWithoutArgument(node: Node): boolean {
  if (node.type !== 'NewExpression' && node.type !== 'CallExpression') return false
  if (nameOf(node['callee']) !== 'Date') return false
  return (
    node.type === 'CallExpression' || (Array.isArray(node['arguments']) && node['arguments'].length === 0)
  )
}

function bareName(node: Node, parent: Node | undefined): string | undefined {
  if (isDateWithoutArgument(node)) return 'new Date()'
  if (node.type === 'MemberExpression') {
    const name = dottedName(node)?.replace(/^globalThis\./, '')
    return name !== undefined && (members.has(name) || globals.has(name)) ? name : undefined
  }
  const name = nameOf(node)
  return name !== undefined && globals.has(name) && isUsedAsValue(node, parent) ? name : undefined
}

/** Called, passed on or kept: not a property, a parameter or a field of the same name, which is a port. */
function isUsedAsValue(node: Node, parent: Node | undefined): boolean {
  if (parent?.type === 'CallExpression') return true
  return parent?.type === 'VariableDeclarator' && parent['init'] === node
}

function bareImports(file: SourceFile): Violation[] {
  return importsOf(file).flatMap((item) => {
    const chance = item.specifier === 'node:crypto' && item.names.some((name) => chanceFromCrypto.test(name))
    if (item.kind === 'type' || (!modules.has(item.specifier) && !chance)) return []
    return [
      violation(file, item.offset, `${item.specifier} is a clock, a timer or chance; take it through a port`),
    ]
  })
}

function bareUses(file: SourceFile): Violation[] {
  const found: Violation[] = []
  walk(file, (node, ancestors) => {
    const name = bareName(node, ancestors.at(-1))
    if (name !== undefined) found.push(violation(file, node.start, `bare ${name}; take it through a port`))
  })
  return found
}

export const clockAndChance: Rule = {
  name: 'no bare clock, timer or chance in domain/ and engine/',
  check: (files) =>
    files.filter((file) => held.test(file.path)).flatMap((file) => [...bareImports(file), ...bareUses(file)]),
}
