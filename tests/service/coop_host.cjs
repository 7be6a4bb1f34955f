/**
 * What Coop does with a plugin, in few words: loads it by its place, checks its manifest, makes its signals, runs one.
 * Takes {plugin, config, inputs} on standard input; prints {manifest, signal, disabled, results}.
 */
'use strict';

const WANTED = [
  'trainingData', 'policyAndTaxonomy', 'annotationMethodology', 'performanceBenchmarks', 'biasAndLimitations',
  'implementationGuidance', 'relevantLinks',
];

async function main() {
  let given = '';
  for await (const part of process.stdin) given += part;
  const { plugin: place, config, inputs } = JSON.parse(given);
  const loaded = require(place);
  const plugin = loaded.default ?? loaded;
  const { manifest } = plugin;
  const sections = manifest.modelCard.sections.map(({ id }) => id);
  const made = plugin.createSignals({
    integrationId: manifest.id,
    getCredential: async (orgId) => (orgId === 'o-1' ? config : {}),
  });
  const [{ signalTypeId, signal }] = made;
  const results = [];
  for (const input of inputs) {
    const type = 'value' in input.value ? input.value.type : 'FULL_ITEM';
    if (!signal.eligibleInputs.includes(type)) throw new Error(`not eligible: ${type}`);
    results.push(await signal.run(input).catch((error) => ({ thrown: error.message })));
  }
  process.stdout.write(JSON.stringify({
    manifest: [typeof manifest.id, typeof manifest.name, typeof manifest.version, typeof manifest.requiresConfig],
    missing: WANTED.filter((id) => !sections.includes(id)),
    listed: made.length === 1 && manifest.signalTypeIds.includes(signalTypeId) && signal.id.type === signalTypeId,
    outputType: signal.outputType,
    disabled: [await signal.getDisabledInfo('o-1'), await signal.getDisabledInfo('o-2')].map(({ disabled }) => disabled),
    results,
  }));
}

main();
