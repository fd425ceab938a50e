/**
 * Where a process logs: a server as JSON lines on standard output; what runs at a person's terminal on
 * standard error, so that its own words stay readable.
 */
import type { Logger } from 'pino'
import { destination } from 'pino'
import type { Config } from '../config/schema.ts'
import { createLogger } from '../telemetry/logger.ts'
import { version } from './version.ts'

type LogLevel = Config['logLevel']

export const serverLogger = (level: LogLevel): Logger => createLogger({ level, version })

export const terminalLogger = (level: LogLevel): Logger =>
  createLogger({ level, version, destination: destination({ fd: 2, sync: true }) })
