// Runs the kernels of another processor under an emulator: foreign IMAGE BASE MODEL THREADS TOKENS RESULTS LENGTH...
// IMAGE is mapped at BASE; MODEL is the address of the model there. TOKENS holds 32-bit ids; LENGTHs say how many go
// into each pass. RESULTS gets logits and counts of every token, then the state of the session.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

#include "engine.cpp"

template <typename T>
void write_all(FILE* file, const std::vector<T>& values) {
    if (std::fwrite(values.data(), sizeof(T), values.size(), file) != values.size()) std::exit(3);
}

int main(int count, char** words) {
    if (count < 7) return 2;
    const int image = open(words[1], O_RDONLY);
    struct stat about;
    void* const base = reinterpret_cast<void*>(std::strtoull(words[2], nullptr, 0));
    if (image < 0 || fstat(image, &about)) return 3;
    if (mmap(base, about.st_size, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, image, 0) != base) return 4;
    const Model& model = *reinterpret_cast<const Model*>(std::strtoull(words[3], nullptr, 0));
    FILE *tokens = std::fopen(words[5], "rb"), *results = std::fopen(words[6], "wb");
    if (!tokens || !results) return 3;
    std::vector<int16_t> membrane(model.width), decay(int64_t(model.layers) * model.width);
    std::vector<int8_t> ring_k(int64_t(model.layers) * model.slots * model.width), ring_v(ring_k.size());
    Engine engine(model, std::atoi(words[4]));
    int64_t position = 0;
    for (int word = 7; word < count; word++) {
        const int length = std::atoi(words[word]);
        std::vector<int64_t> logits(int64_t(length) * model.vocab);
        std::vector<int32_t> active(int64_t(length) * model.layers * kSites);
        std::vector<int32_t> optional(int64_t(length) * (model.layers + 2));
        std::vector<Item> items(length);
        for (int t = 0; t < length; t++) {
            Item& item = items[t];
            item = {};
            item.membrane = membrane.data(), item.decay = decay.data();
            item.ring_k = ring_k.data(), item.ring_v = ring_v.data();
            item.logits = logits.data() + int64_t(t) * model.vocab;
            item.active = active.data() + int64_t(t) * model.layers * kSites;
            item.optional = optional.data() + int64_t(t) * (model.layers + 2);
            item.position = position++;
            item.want = 1;
            if (std::fread(&item.token, sizeof item.token, 1, tokens) != 1) return 3;
        }
        engine.run(items.data(), length);
        write_all(results, logits);
        write_all(results, active), write_all(results, optional);
    }
    write_all(results, membrane), write_all(results, decay), write_all(results, ring_k), write_all(results, ring_v);
    return std::fclose(results) ? 3 : 0;
}
