/**
 * The parser: builds commander's command tree from the table and turns `argv` into a command with its
 * arguments and flag values, or into help, or into a `UsageError` with a did-you-mean. It decides nothing
 * else.
 */
import { httpMethods, nearest } from '@belfry/contract'
import { Command as Program, CommanderError, Option } from 'commander'
import type { Command, FlagSpec } from './command.ts'
import { argumentWords, commandName, flagsOf, globalFlags } from './command.ts'
import { UsageError } from './exit-codes.ts'
import type { FlagValues } from './flags.ts'
import { commandHelp, groupHelp, nounsOf, rootHelp } from './help.ts'

export type Parsed =
  | {
      readonly kind: 'run'
      readonly command: Command
      readonly args: readonly string[]
      readonly flags: FlagValues
    }
  /** `asked`: by --help; otherwise the verb is missing. */
  | { readonly kind: 'help'; readonly text: string; readonly asked: boolean }
  | { readonly kind: 'version' }

const attribute = (spec: FlagSpec): string =>
  spec.name.replace(/-([a-z])/g, (_match, letter: string) => letter.toUpperCase())

/**
 * `--http POST https://…` becomes one value, `--http=POST https://…`, so that a name may stand behind it.
 * Tokens behind `--` are left alone.
 */
export function joinMethods(argv: readonly string[], flags: ReadonlySet<string>): string[] {
  const joined: string[] = []
  for (let index = 0; index < argv.length; index += 1) {
    const token = argv[index] ?? ''
    if (token === '--') return [...joined, ...argv.slice(index)]
    const equals = token.indexOf('=')
    const flag = equals < 0 ? token : token.slice(0, equals)
    const inline = equals < 0 ? undefined : token.slice(equals + 1)
    const method = inline ?? argv[index + 1]
    const url = argv[index + (inline === undefined ? 2 : 1)]
    if (flags.has(flag) && method !== undefined && url !== undefined && meantAsMethod(method, url)) {
      joined.push(`${flag}=${method} ${url}`)
      index += inline === undefined ? 2 : 1
    } else joined.push(token)
  }
  return joined
}

const isMethod = (text: string): boolean => (httpMethods as readonly string[]).includes(text.toUpperCase())

/** One that is called, or a word before a URL: what is wrong with it is said where the flag is read. */
const meantAsMethod = (word: string, next: string): boolean =>
  isMethod(word) || (/^[a-z]+$/i.test(word) && /^[a-z][a-z0-9+.-]*:\/\//i.test(next))

/** `program`: what its help is asked of. */
function optionOf(spec: FlagSpec, all: ReadonlySet<string>, program: string): Option {
  const short = spec.short === undefined ? '' : `-${spec.short}, `
  const option = new Option(
    `${short}--${spec.name}${spec.value === undefined ? '' : ` <${spec.value}>`}`,
    spec.summary,
  )
  if (spec.value === undefined) return option
  return option.argParser((value: string, before: unknown) => {
    if (all.has(value)) throw new UsageError(`--${spec.name} needs a value, but ${value} follows it`)
    if (spec.choices !== undefined && !spec.choices.includes(value)) {
      throw new UsageError(
        `--${spec.name} "${value}" is not one of ${spec.choices.join(', ')}; see ${program} --help`,
      )
    }
    if (spec.repeat !== true) return value
    return [...(Array.isArray(before) ? (before as string[]) : []), value]
  })
}

function prepared(program: Program, specs: readonly FlagSpec[], help: () => string, path = ''): Program {
  const all = new Set(specs.map((spec) => `--${spec.name}`))
  for (const spec of specs) program.addOption(optionOf(spec, all, `belfry${path}`))
  return program
    .exitOverride()
    .enablePositionalOptions()
    .helpCommand(false)
    .helpOption('-h, --help', 'Show this help')
    .configureHelp({ formatHelp: help })
}

type Sink = { help: string; run: Parsed | undefined }

function valuesOf(chain: readonly (readonly [Program, readonly FlagSpec[]])[]): FlagValues {
  const values = new Map<string, string | boolean | readonly string[]>()
  for (const [program, specs] of chain) {
    const options = program.opts<Record<string, string | boolean | readonly string[] | undefined>>()
    for (const spec of specs) {
      // Commander keeps `--no-color` as `color: false`.
      const negated = spec.name.startsWith('no-')
      const value = negated
        ? options[attribute({ ...spec, name: spec.name.slice(3) })]
        : options[attribute(spec)]
      if (negated ? value === false : value !== undefined)
        values.set(spec.name, negated ? true : (value ?? true))
    }
  }
  return values
}

function buildLeaf(command: Command, parents: readonly Program[], sink: Sink, columns: number): Program {
  const specs = flagsOf(command)
  const leaf = prepared(
    new Program(command.verb ?? command.noun),
    specs,
    () => commandHelp(command, columns),
    ` ${commandName(command)}`,
  )
  for (const argument of command.arguments ?? []) {
    leaf.argument(argumentWords(argument), argument.summary)
  }
  const chain = [...parents.map((parent) => [parent, globalFlags] as const), [leaf, specs] as const]
  return leaf.action((...given: unknown[]) => {
    const args = given
      .slice(0, command.arguments?.length ?? 0)
      .flat()
      .filter((value) => typeof value === 'string')
    sink.run = { kind: 'run', command, args, flags: valuesOf(chain) }
  })
}

function buildTree(table: readonly Command[], version: string, sink: Sink, columns: number): Program {
  const root = prepared(new Program('belfry'), globalFlags, () => rootHelp(table, columns))
  root.version(version, '-V, --version', 'Show the version')
  for (const noun of nounsOf(table, true)) {
    const rows = table.filter((command) => command.noun === noun)
    const [first] = rows
    if (first !== undefined && first.verb === undefined) {
      root.addCommand(buildLeaf(first, [root], sink, columns), { hidden: first.hidden === true })
      continue
    }
    const group = prepared(new Program(noun), globalFlags, () => groupHelp(noun, rows, columns), ` ${noun}`)
    for (const row of rows) {
      group.addCommand(buildLeaf(row, [root, group], sink, columns), { isDefault: row.isDefault === true })
    }
    root.addCommand(group)
  }
  return root
}

function silence(program: Program, sink: Sink): void {
  const keep = (text: string): void => {
    sink.help += text
  }
  program.configureOutput({ writeOut: keep, writeErr: keep, outputError: () => undefined })
  program.commands.forEach((command) => silence(command, sink))
}

/** Commander's message in our words: "unknown command 'shedule'; did you mean schedule?". */
function usageOf(error: CommanderError, table: readonly Command[], argv: readonly string[]): UsageError {
  const words = error.message
    .replace(/^error: /, '')
    .replace(/\n?\(Did you mean one of ([^)]+)\?\)/, '; did you mean one of $1?')
    .replace(/\n?\(Did you mean ([^)]+)\?\)/, '; did you mean $1?')
  // Where a verb may be left out, a misspelt one looks like an argument too many.
  const [noun, verb = ''] = argv
  const verbs = table.flatMap((command) => (command.noun === noun ? (command.verb ?? []) : []))
  const near = error.code === 'commander.excessArguments' ? nearest(verb, verbs) : undefined
  if (near !== undefined && near !== verb) {
    return new UsageError(`unknown command '${verb}'; did you mean ${near}?`)
  }
  return new UsageError(words.endsWith('?') ? words : `${words.replace(/\.$/, '')}; see --help`)
}

/** Parses `argv` (without node and script). Throws `UsageError`. */
export function parseArguments(
  table: readonly Command[],
  argv: readonly string[],
  version: string,
  columns: number,
): Parsed {
  const [head, ...rest] = argv
  if (head === undefined) return { kind: 'help', text: rootHelp(table, columns), asked: true }
  const methodFlags = new Set(
    table.flatMap((command) =>
      (command.flags ?? []).filter((flag) => flag.method === true).map((flag) => `--${flag.name}`),
    ),
  )
  const sink: Sink = { help: '', run: undefined }
  const tree = buildTree(table, version, sink, columns)
  silence(tree, sink)
  try {
    tree.parse(joinMethods(head === 'help' ? [...rest, '--help'] : argv, methodFlags), { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    if (error.code === 'commander.version') return { kind: 'version' }
    if (error.code === 'commander.helpDisplayed') return { kind: 'help', text: sink.help, asked: true }
    if (error.code === 'commander.help') return { kind: 'help', text: sink.help, asked: false }
    throw usageOf(error, table, argv)
  }
  if (sink.run === undefined) throw new Error('the parser neither ran a command nor said why')
  return sink.run
}
