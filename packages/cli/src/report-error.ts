/**
 * What people and programs see of a failure: code, words, each fault with the flag that it came from, the
 * fix, the request id; the problem document on stdout for `-o json`. And the exit code.
 */
import type { Problem } from '@belfry/contract'
import { BelfryError, toProblem } from '@belfry/contract'
import { AnswerError } from '@belfry/sdk'
import type { Command } from './command.ts'
import { commandName } from './command.ts'
import { exitCodes, InputError, UsageError } from './exit-codes.ts'
import type { Io } from './io.ts'
import { painter, wantsColor } from './output/paint.ts'
import type { OutputFormat } from './output/structured.ts'
import { toJson, toJsonLine, toYaml } from './output/structured.ts'
import { plain, plainLines } from './output/text.ts'

export type ErrorView = {
  readonly format: OutputFormat
  readonly noColor: boolean
  readonly command: Command | undefined
}

function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof InputError) return exitCodes.usage
  if (!(error instanceof BelfryError)) return exitCodes.failed
  const ofAuth = ['unauthenticated', 'forbidden', 'sign_in_failed', 'cross_origin']
  if (ofAuth.includes(error.code)) return exitCodes.auth
  return error.code === 'wait_timeout' ? exitCodes.waitTimedOut : exitCodes.failed
}

function problemOf(error: unknown): Problem {
  if (error instanceof AnswerError) return error.problem
  if (error instanceof BelfryError) return toProblem(error, '')
  const message = error instanceof Error ? error.message : String(error)
  return toProblem(new BelfryError(error instanceof UsageError ? 'invalid_request' : 'internal', message), '')
}

/** The flag that filled a field: the longest known pointer that is the field or stands above it. */
function flagOfPointer(pointer: string, command: Command | undefined): string | undefined {
  const known = Object.entries(command?.fieldFlags ?? {})
  const fitting = known.filter(([field]) => pointer === field || pointer.startsWith(`${field}/`))
  return fitting.sort(([a], [b]) => b.length - a.length)[0]?.[1]
}

const nextSteps: Readonly<Record<string, string>> = {
  unauthenticated:
    'Give a key by --key-file, BELFRY_API_KEY or a context (`belfry context list`); `belfry dev` makes one.',
  forbidden: 'Use a key with more scopes: `belfry key create --help`.',
  server_unreachable: 'Start a server with `belfry dev`, or name another by --url or `belfry context use`.',
}

function wordsOf(error: unknown, problem: Problem, view: ErrorView): string[] {
  if (error instanceof UsageError) {
    const help = view.command === undefined ? 'belfry --help' : `belfry ${commandName(view.command)} --help`
    return error.message.includes('--help') ? [] : [`  See \`${help}\`.`]
  }
  const faults = problem.errors.map((fault) => {
    const flag = flagOfPointer(fault.pointer, view.command)
    const where =
      flag === undefined
        ? plain(fault.pointer === '' ? 'the request' : fault.pointer)
        : `${flag} (${plain(fault.pointer)})`
    return `  ${where}: ${plain(fault.message)}`
  })
  const next = nextSteps[problem.code]
  return [
    ...faults,
    ...(next === undefined ? [] : [`  ${next}`]),
    ...(problem.instance === '' ? [] : [`  Request ${plain(problem.instance)}`]),
  ]
}

/** Reports an error and answers the exit code. */
export function reportError(error: unknown, io: Io, view: ErrorView): number {
  const problem = problemOf(error)
  if (view.format === 'json') io.stdout.write(`${toJson(problem)}\n`)
  if (view.format === 'jsonl') io.stdout.write(`${toJsonLine(problem)}\n`)
  if (view.format === 'yaml') io.stdout.write(`${toYaml(problem)}\n`)
  const paint = painter(wantsColor(io.stderr, io.env, view.noColor))
  const code = error instanceof UsageError ? '' : ` (${plain(problem.code)})`
  const lines = [
    `${paint('error:', 'bad')} ${plainLines(problem.detail)}${code}`,
    ...wordsOf(error, problem, view),
  ]
  io.stderr.write(`${lines.join('\n')}\n`)
  return exitCodeOf(error)
}
