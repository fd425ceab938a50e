/**
 * The version of this build, as its package says. Read from the file, so that sources and compiled code tell
 * the same.
 */
import { readFileSync } from 'node:fs'

function readVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

export const version = readVersion()
