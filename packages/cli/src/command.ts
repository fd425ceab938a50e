/**
 * Commands as data: one row names noun, verb, arguments, flags, help, examples and what to run. The parser,
 * the help, the reference page and the tests are all made of these rows.
 */
import type { Client } from '@belfry/sdk'
import type { Connection } from './connection.ts'
import type { Flags } from './flags.ts'
import type { Io } from './io.ts'
import type { Printer } from './output/printer.ts'

export type ArgumentSpec = {
  readonly name: string
  readonly summary: string
  readonly optional?: boolean
  /** Takes all that follow; the last one only. */
  readonly many?: boolean
}

/** `<run>`, `[run]`, `<run...>`. */
export function argumentWords({ name, optional = false, many = false }: ArgumentSpec): string {
  const words = many ? `${name}...` : name
  return optional ? `[${words}]` : `<${words}>`
}

export type FlagSpec = {
  /** Without dashes, kebab-case; a name that begins with `no-` turns something off. */
  readonly name: string
  readonly short?: string
  /** Placeholder of the value; none for a flag that is on or off. */
  readonly value?: string
  readonly summary: string
  /** May be given several times. */
  readonly repeat?: boolean
  readonly choices?: readonly string[]
  /** Takes an HTTP method before its value: `--http POST https://…`. */
  readonly method?: boolean
}

export type Example = { readonly words: string; readonly command: string }

/** `change` stores something on the server, `localChange` on this machine: both take --dry-run. */
export type Effect = 'read' | 'change' | 'local' | 'localChange'

export type Call = {
  /** Value of an argument; undefined for an optional one that was left out. */
  readonly argument: (name: string) => string | undefined
  /** Values of an argument that takes many. */
  readonly many: (name: string) => readonly string[]
  readonly flags: Flags
  readonly io: Io
  readonly printer: Printer
  readonly dryRun: boolean
  /** Where the server is and which key is used; made at first use. */
  readonly connection: () => Promise<Connection>
  readonly client: () => Promise<Client>
}

export type Command = {
  readonly noun: string
  readonly verb?: string
  readonly summary: string
  readonly details?: string
  readonly arguments?: readonly ArgumentSpec[]
  readonly flags?: readonly FlagSpec[]
  readonly effect: Effect
  readonly hidden?: boolean
  /** Runs when the verb is left out. */
  readonly isDefault?: boolean
  readonly examples: readonly [Example, ...Example[]]
  /** Which flag fills which field of the request, so that errors name the flag: `/handler/url` → `--http`. */
  readonly fieldFlags?: Readonly<Record<string, string>>
  /** Answers an exit code if it is not 0. */
  readonly run: (call: Call) => Promise<number | undefined>
}

export const commandName = (command: Command): string =>
  command.verb === undefined ? command.noun : `${command.noun} ${command.verb}`

/** Value of an argument that the parser has made sure of. */
export function required(call: Call, name: string): string {
  const value = call.argument(name)
  if (value === undefined) throw new Error(`the argument ${name} is not in the command's row`)
  return value
}

export const dryRunFlag: FlagSpec = {
  name: 'dry-run',
  summary: 'Check everything and show the result, but store nothing',
}

/** Flags that every command takes. */
export const globalFlags: readonly FlagSpec[] = [
  {
    name: 'output',
    short: 'o',
    value: 'format',
    choices: ['table', 'json', 'jsonl', 'yaml', 'name'],
    summary: 'How data is printed; all but `table` are stable for programs',
  },
  { name: 'url', value: 'url', summary: 'Address of the server (else BELFRY_URL, else the context)' },
  { name: 'context', value: 'name', summary: 'Context to use (else BELFRY_CONTEXT, else the current one)' },
  {
    name: 'key-file',
    value: 'path',
    summary: 'File with the API key, `-` for standard input (else BELFRY_API_KEY, else the context)',
  },
  { name: 'request-timeout', value: 'duration', summary: 'Limit of one request, such as 30s (the default)' },
  { name: 'utc', summary: 'Show times in UTC instead of local time' },
  { name: 'quiet', short: 'q', summary: 'Print data and errors only' },
  { name: 'no-color', summary: 'No colour (NO_COLOR does the same)' },
]

/** All flags of a command, its own first. */
export function flagsOf(command: Command): readonly FlagSpec[] {
  const changes = command.effect === 'change' || command.effect === 'localChange'
  return [...(command.flags ?? []), ...(changes ? [dryRunFlag] : []), ...globalFlags]
}
