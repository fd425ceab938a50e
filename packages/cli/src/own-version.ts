/**
 * The version of this command line, read from its package, so that sources and compiled code tell the same.
 * All packages of Belfry have one version.
 */
import { readFileSync } from 'node:fs'

export function ownVersion(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
