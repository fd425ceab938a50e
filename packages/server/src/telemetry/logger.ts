/**
 * The log of a server: one JSON line an entry on stdout, by pino. Whatever is named like a credential is
 * masked, wherever it stands in the first three levels. Everything else in the server speaks to the log
 * through events or this logger.
 */
import type { DestinationStream, Level, Logger } from 'pino'
import { pino } from 'pino'

export type LogLevel = Level | 'silent'

const secretNames = [
  'authorization',
  'cookie',
  'password',
  'secret',
  'key',
  'token',
  'apiKey',
  'connectionString',
]
const redactPaths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])

export interface LoggerOptions {
  /** Default `info`. */
  readonly level?: LogLevel | undefined
  readonly version: string
  /** Default stdout. */
  readonly destination?: DestinationStream | undefined
}

export function createLogger(options: LoggerOptions): Logger {
  const settings = {
    level: options.level ?? 'info',
    base: { service: 'belfry', version: options.version, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: redactPaths, censor: '[masked]' },
    messageKey: 'message',
  }
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination)
}
