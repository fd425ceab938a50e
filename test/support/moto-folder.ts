// Where moto is, a second emulator of SQS, from another hand than the first: a virtual environment of Python
// in the cache that scripts/lib/fetch-moto.ts fills, outside of the tree.
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const motoVersion = '5.1.12'
/** What its server needs; all else that it can do needs far more. */
export const motoPackages = [`moto==${motoVersion}`, 'flask==3.1.2', 'flask-cors==6.0.1'] as const

export function motoCacheFolder(): string {
  const base =
    process.getuid?.() === 0 ? '/var/cache' : process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  return join(base, 'belfry-tests', `moto-${motoVersion}`)
}

/** The Python that has it; undefined where there is none. */
export function motoPython(): string | undefined {
  const python = join(motoCacheFolder(), 'bin', 'python3')
  return existsSync(python) ? python : undefined
}
