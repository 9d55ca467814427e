# Homebrew's formula for a tap. It installs the archives of a release; `packaging/fill.sh` writes their digests into a copy.
class Tensorfile < Formula
  desc "List, show, compare, check and convert tensor files"
  homepage "https://github.com/OWNER/tensorfile"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/OWNER/tensorfile/releases/download/v#{version}/tensorfile-#{version}-aarch64-apple-darwin.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
    on_intel do
      url "https://github.com/OWNER/tensorfile/releases/download/v#{version}/tensorfile-#{version}-x86_64-apple-darwin.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/OWNER/tensorfile/releases/download/v#{version}/tensorfile-#{version}-aarch64-unknown-linux-musl.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
    on_intel do
      url "https://github.com/OWNER/tensorfile/releases/download/v#{version}/tensorfile-#{version}-x86_64-unknown-linux-musl.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000"
    end
  end

  def install
    bin.install "tensorfile"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/tensorfile.bash" => "tensorfile"
    zsh_completion.install "completions/_tensorfile"
    fish_completion.install "completions/tensorfile.fish"
  end

  test do
    # An array of two bytes, as numpy saves it. Homebrew's test has no other files.
    header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }".ljust(117) + "\n"
    (testpath/"a.npy").binwrite "\x93NUMPY\x01\x00".b + [header.size].pack("v") + header + "\x01\x02"
    assert_match "u8", shell_output("#{bin}/tensorfile ls a.npy")
  end
end
