// Makes sure that the services of test/support/services.ts are there before the tests start. Where it may, as
// root on Debian or Ubuntu, it says what it installs and does it; elsewhere it only says what a person can
// type.
import { accessSync } from 'node:fs'
import { moto, schemathesis } from '../../test/support/python-tools.ts'
import { type Service, services } from '../../test/support/services.ts'
import { fetchKafka } from './fetch-kafka.ts'
import { fetchPythonTool } from './fetch-python-tool.ts'
import { runStep } from './steps.ts'

function hasApt(): boolean {
  try {
    accessSync('/usr/bin/apt-get')
    return true
  } catch {
    return false
  }
}

const missing = (): readonly Service[] => services.filter((service) => service.find() === undefined)

async function install(packages: readonly string[]): Promise<void> {
  console.log(`Missing for the tests, about to install with apt-get: ${packages.join(', ')}`)
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  await runStep({ title: 'apt lists', command: ['apt-get', 'update', '-qq'], limitMinutes: 5, env })
  // Whether it worked is judged by looking again, not by apt's exit code: a package may install what is
  // wanted and still fail to start a service of its own, which the tests do not use.
  const command = ['apt-get', 'install', '-y', '-qq', '--no-install-recommends', ...packages] as const
  await runStep({ title: 'apt packages', command, limitMinutes: 15, env })
}

/** Installs what is missing where that is possible and returns what is missing still. */
export async function prepareServices(): Promise<readonly Service[]> {
  const packages = [...new Set(missing().flatMap((service) => service.aptPackages))]
  if (packages.length > 0 && hasApt() && process.getuid?.() === 0) await install(packages)
  if (missing().some(({ name }) => name === 'kafka')) await fetchKafka()
  for (const tool of [moto, schemathesis]) {
    if (missing().some(({ name }) => name === tool.name)) await fetchPythonTool(tool)
  }
  return missing()
}

/** One line a suite that the machine cannot run, with the command that would change that. */
export function describeLeftOut(service: Service): string {
  const { name, purpose, aptPackages, elsewhere } = service
  const byApt = hasApt() && aptPackages.length > 0
  const command = byApt ? `sudo apt-get install ${aptPackages.join(' ')}` : elsewhere
  return service.suites.map((suite) => `  ${suite}: needs ${name}, ${purpose}. Get it: ${command}`).join('\n')
}
