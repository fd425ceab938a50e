/**
 * Runs one command line from `argv` to exit code. Everything it touches comes in through `Io`, so that tests
 * run it in-process; `main.ts` gives it the process's own streams.
 */
import { createClient } from '@belfry/sdk'
import type { Client } from '@belfry/sdk'
import type { Parsed } from './arguments.ts'
import { parseArguments } from './arguments.ts'
import type { Call, Command } from './command.ts'
import { flagsOf } from './command.ts'
import { commandTable } from './command-table.ts'
import type { Connection } from './connection.ts'
import { resolveConnection } from './connection.ts'
import { contextFile, looseContextFile, readContexts } from './contexts.ts'
import { exitCodes } from './exit-codes.ts'
import type { Flags } from './flags.ts'
import { createFlags } from './flags.ts'
import type { Io } from './io.ts'
import type { Printer } from './output/printer.ts'
import { createPrinter } from './output/printer.ts'
import type { OutputFormat } from './output/structured.ts'
import { outputFormats } from './output/structured.ts'
import { ownVersion } from './own-version.ts'
import { reportError } from './report-error.ts'
import { loadServer } from './server-module.ts'

const readNothing = async (): Promise<string> => ''

/** Fills what a caller left out. */
function completed(io: Partial<Io> & Pick<Io, 'stdout' | 'stderr'>): Io {
  return {
    env: {},
    fetch: globalThis.fetch,
    readStdin: readNothing,
    now: Date.now,
    stopSignal: () => new AbortController().signal,
    loadServer,
    ...io,
  }
}

/** The format asked for, also where the rest of the line does not parse: an error has to be in it too. */
function formatHint(argv: readonly string[]): OutputFormat {
  for (const [index, token] of argv.entries()) {
    if (token === '--') break
    const [, inline] = /^(?:-o|--output)=?(.*)$/.exec(token) ?? []
    const value = inline === undefined ? undefined : inline === '' ? argv[index + 1] : inline
    const format = outputFormats.find((known) => known === value)
    if (format !== undefined) return format
  }
  return 'table'
}

const helpColumns = (io: Io): number => Math.min(100, Math.max(40, io.stdout.columns ?? 80))

/** Runs a command line. `argv` begins after the command's own name. Never throws; never exits. */
export async function runCli(
  argv: readonly string[],
  given: Partial<Io> & Pick<Io, 'stdout' | 'stderr'>,
): Promise<number> {
  const io = completed(given)
  let parsed: Parsed
  try {
    parsed = parseArguments(commandTable, argv, ownVersion(), helpColumns(io))
  } catch (error) {
    return reportError(error, io, {
      format: formatHint(argv),
      noColor: argv.includes('--no-color'),
      command: undefined,
    })
  }
  if (parsed.kind === 'version') {
    io.stdout.write(`belfry ${ownVersion()}\n`)
    return exitCodes.ok
  }
  if (parsed.kind === 'help') {
    const stream = parsed.asked ? io.stdout : io.stderr
    stream.write(parsed.text)
    return parsed.asked ? exitCodes.ok : exitCodes.usage
  }
  return runCommand(parsed, io)
}

async function runCommand(parsed: Extract<Parsed, { kind: 'run' }>, io: Io): Promise<number> {
  const { command } = parsed
  const flags = createFlags(flagsOf(command), parsed.flags, io)
  const format = flags.choice('output', outputFormats) ?? 'table'
  const noColor = flags.on('no-color')
  const printer = createPrinter(io, { format, noColor, quiet: flags.on('quiet'), utc: flags.on('utc') })
  try {
    return (await command.run(callOf(command, parsed.args, flags, printer, io))) ?? exitCodes.ok
  } catch (error) {
    return reportError(error, io, { format, noColor, command })
  }
}

function callOf(command: Command, args: readonly string[], flags: Flags, printer: Printer, io: Io): Call {
  let connecting: Promise<Connection> | undefined
  const connection = (): Promise<Connection> => {
    connecting ??= connect(flags, printer, io)
    return connecting
  }
  const place = (name: string): number => {
    const index = (command.arguments ?? []).findIndex((argument) => argument.name === name)
    if (index < 0) throw new Error(`the argument ${name} is not in the command's row`)
    return index
  }
  const changes = command.effect === 'change' || command.effect === 'localChange'
  return {
    argument: (name) => args[place(name)],
    many: (name) => args.slice(place(name)),
    flags,
    io,
    printer,
    dryRun: changes && flags.on('dry-run'),
    connection,
    client: async () => clientOf(await connection(), flags, io),
  }
}

async function connect(flags: Flags, printer: Printer, io: Io): Promise<Connection> {
  const path = contextFile(io.env)
  const loose = await looseContextFile(path)
  if (loose !== undefined) printer.warn(loose)
  return resolveConnection(flags, io, await readContexts(path))
}

function clientOf(connection: Connection, flags: Flags, io: Io): Client {
  return createClient({
    url: connection.url,
    apiKey: connection.apiKey,
    fetch: io.fetch,
    timeoutMs: flags.durationMs('request-timeout'),
  })
}
