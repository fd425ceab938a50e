// Lets pip put moto into the cache of the tests (test/support/moto-folder.ts). It comes under its name only
// when it is all there.
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { motoCacheFolder, motoPackages, motoPython } from '../../test/support/moto-folder.ts'
import { runStep } from './steps.ts'

/** True if it is there. */
export async function fetchMoto(): Promise<boolean> {
  const folder = motoCacheFolder()
  const unfinished = `${folder}.${process.pid}`
  mkdirSync(dirname(folder), { recursive: true })
  const python = join(unfinished, 'bin', 'python3')
  const pip = [python, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', ...motoPackages] as const
  const fetched =
    (await runStep({
      title: 'Python for moto',
      command: ['python3', '-m', 'venv', unfinished],
      limitMinutes: 3,
    })) && (await runStep({ title: 'moto', command: pip, limitMinutes: 10 }))
  try {
    if (fetched) renameSync(unfinished, folder)
  } catch {
    // another process was first
  }
  rmSync(unfinished, { recursive: true, force: true })
  return motoPython() !== undefined
}
