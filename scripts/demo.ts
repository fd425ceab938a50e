// `npm run demo [-- --for SECONDS]`: the command `belfry demo`, run from the sources, with the same flags,
// output and exit code.
process.argv.splice(2, 0, 'demo')
await import('../packages/cli/src/main.ts')
